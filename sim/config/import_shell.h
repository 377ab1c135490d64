// A launch script read as text: its assignments and its command lines, nothing is executed.
// Understood: comments, continued lines, quotes, NAME=value, NAME+=value, arrays, export, $NAME,
// ${NAME}, ${NAME:-default} and its kin, "${ARRAY[@]}", $((...)), here-documents (skipped), a
// command line inside a quoted word (sh -c "..."). Conditions, loops and functions are not
// followed: their lines count as they stand, and of several assignments the last one before a use
// holds.
// Law: unterminated quotes and brackets, and variables that multiply the text, are one Error by
// line:column; everything else reads.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace stepsim {

/// A word after expansion.
struct ShellWord {
  std::string text;
  std::string lacks;  ///< what the file does not define ("$1", "$(...)"); "" = nothing
};

/// One command line without its redirections.
struct ShellCommand {
  std::vector<ShellWord> words;
  std::map<std::string, ShellWord> environment;  ///< assignments in front of it
};

/// All command lines in order, and the variables as the last line leaves them.
struct ShellScript {
  std::vector<ShellCommand> commands;
  std::map<std::string, std::vector<ShellWord>> variables;  ///< one word, or an array's
  std::map<std::string, ShellWord> exported;
};

/// `plain`: a file of words without operators; of the shell's notation it keeps quotes, comments
/// and variables. `inside`: a word of several that holds this text is read as a command line too.
ShellScript read_shell(const std::string& text, const std::string& file, bool plain,
                       const std::string& inside);

}  // namespace stepsim
