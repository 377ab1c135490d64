// The one error type: what is wrong with an input, where, and what was expected.
// Thrown only while reading input; after a Scenario exists `assert` guards programmer mistakes.
#pragma once

#include <exception>
#include <string>

namespace stepsim {

/// Bad input. `what()` is one line: `file#pointer: message`, the message printable ASCII of at most
/// 900 characters.
class Error : public std::exception {
 public:
  /// `pointer` is an RFC 6901 JSON pointer ("" = the whole document) or "line:column" for syntax
  /// errors.
  Error(std::string file, std::string pointer, std::string message);

  const std::string& file() const { return file_; }
  const std::string& pointer() const { return pointer_; }
  const std::string& message() const { return message_; }
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string file_, pointer_, message_, what_;
};

}  // namespace stepsim
