// What is written differently in two scenarios, key by key, and every mixture of the two.
//
// Compared are the merged documents (bases, --cluster and overrides laid on): objects key by key,
// anything else as one value; null is a key that is not written. Law: the mixture of no change is
// A's document, that of all is B's, and a mixture made from A is the same as the one made from B.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/config/scenario.h"

namespace stepsim {

/// One key that is written differently.
struct KeyChange {
  std::string key;       ///< dotted
  std::string from, to;  ///< JSON text; "": not written there
};

/// Which changes are made, by their number.
using Subset = std::vector<bool>;

/// Two merged documents.
class DocumentPair {
 public:
  DocumentPair(const Scenario& a, const Scenario& b);
  ~DocumentPair();
  DocumentPair(const DocumentPair&) = delete;
  DocumentPair& operator=(const DocumentPair&) = delete;

  /// In order of their keys.
  const std::vector<KeyChange>& changes() const { return changes_; }
  /// The document with B's value for each change in `made`, else with A's, as JSON text.
  std::string mixture(const Subset& made) const;
  /// That names in it are looked up beside.
  const std::string& file() const { return file_; }

 private:
  struct Tree;
  std::unique_ptr<Tree> a_, b_;
  std::vector<std::string> pointers_;  ///< of `changes_`
  std::vector<KeyChange> changes_;
  std::string file_;
};

/// The Scenario that JSON text describes, with `key` written as JSON text `value`.
std::string with_value(const std::string& document, const std::string& key,
                       const std::string& value);

}  // namespace stepsim
