// Law: words and variables of a launch script come out as bash would expand them; what only a
// running shell knows is marked as lacking, never guessed.
#include "sim/config/import_shell.h"

#include <doctest/doctest.h>

#include <optional>

#include "sim/config/import_arithmetic.h"

using namespace stepsim;

namespace {

/// Words of the last command, joined by bars; what the file lacks in angle brackets.
std::string words(const std::string& text) {
  const ShellScript read = read_shell(text, "x.sh", false, "pretrain_");
  std::string line;
  if (read.commands.empty()) return line;
  for (const ShellWord& word : read.commands.back().words)
    line +=
        (line.empty() ? "" : "|") + word.text + (word.lacks.empty() ? "" : "<" + word.lacks + ">");
  return line;
}

std::optional<int64_t> sum(const std::string& text) {
  return shell_arithmetic(text, [](std::string_view name) -> std::optional<int64_t> {
    if (name == "A") return 12;
    return std::nullopt;
  });
}

}  // namespace

TEST_CASE("words: quotes, continuation, comments, operators") {
  CHECK(words("run a 'b c' \"d e\" f\\ g") == "run|a|b c|d e|f g");
  CHECK(words("run a \\\n  b # not c\n") == "run|a|b");
  CHECK(words("run a \\\r\n  b\r\n") == "run|a|b");
  CHECK(words("run a#b '#c' 'd'\"e\"f") == "run|a#b|#c|def");
  CHECK(words("first\nrun a > log.txt 2>&1") == "run|a");
  CHECK(words("run a 2>&1 | tee log") == "tee|log");
  CHECK(words("cat <<EOF\nrun it's\nEOF\nrun b") == "run|b");
  CHECK(words("run \"a\\\"b\" 'c\\d' \"e\\f\"") == "run|a\"b|c\\d|e\\f");
  CHECK(words("if [ -z $X ]; then run a; fi; run b") == "run|b");
  CHECK(words("run \"\" a") == "run||a");
  CHECK(words("run a\necho \"can't find pretrain_gpt.py\"") == "echo|can't find pretrain_gpt.py");
}

TEST_CASE("words: variables as the last assignment leaves them") {
  CHECK(words("A=1\nrun $A ${A}x") == "run|1|1x");
  CHECK(words("A='1 2'\nrun $A \"$A\"") == "run|1|2|1 2");
  CHECK(words("A=1\nA=2\nrun $A\n") == "run|2");
  CHECK(words("export A=1\nexport B=$A$A\nrun $B") == "run|11");
  CHECK(words("A=x\nA+=y\nrun $A") == "run|xy");
  CHECK(words("A=1; B=2; run $A$B") == "run|12");
  CHECK(words("A=1 run $A") == "run|1");
  CHECK(words("A=1\nA=2 true\nrun $A") == "run|1");  // in front of a command it is that command's
  CHECK(words("run ${A:-4} ${B-5} ${C:=6}") == "run|4|5|6");
  CHECK(words("A=1\nrun ${A:-4} ${A:+yes} ${B:+no}") == "run|1|yes");
  CHECK(words("A=\nrun ${A:-4} ${A-5}") == "run|4");
  CHECK(words("run ${A:-${B:-7}} ${A:-\"x y\"}") == "run|7|x y");
  CHECK(words("TP=${1:-8}\nrun $TP") == "run|8");
  CHECK(words("TP=$1\nrun $TP ${TP:-2}") == "run|<$1>|2");
  CHECK(words("run $UNSET ${X%.*} $(date) `date` a$?") ==
        "run|<$UNSET>|<${X%.*}>|<$(...)>|<`...`>|a<$?>");
  CHECK(words("run \"$@\" $* a") == "run|a");
}

TEST_CASE("words: arrays and arithmetic") {
  CHECK(words("A=(x 'y z' # note\n w)\nrun \"${A[@]}\"") == "run|x|y z|w");
  CHECK(words("A=(x)\nA+=(y)\nrun ${A[@]} ${A[1]} $A") == "run|x|y|y|x");
  CHECK(words("A=(x y)\nB=(\"${A[@]}\" z)\nrun \"${B[*]}\" \"${B[@]}\"") == "run|x y z|x|y|z");
  CHECK(words("A=()\nrun \"${A[@]}\" b") == "run|b");
  CHECK(words("G=8\nN=4\nrun $((G*N)) $(( $G * ${N} / 2 )) $((G/0))") == "run|32|16|<$((...))>");
  CHECK(words("W=$((2*16))\nrun $W") == "run|32");
  CHECK(sum("1+2*3") == 7);
  CHECK(sum("(1+2)*3") == 9);
  CHECK(sum("-A % 5") == -2);
  CHECK(sum("2**10") == 1024);
  CHECK(sum("0x10 + 010") == 24);
  CHECK(sum("$A/5") == 2);
  CHECK(!sum("A/0"));
  CHECK(!sum("B+1"));
  CHECK(!sum("9223372036854775807+1"));
  CHECK(!sum("1 < 2"));
  CHECK(!sum(std::string(1000, '(')));
}
