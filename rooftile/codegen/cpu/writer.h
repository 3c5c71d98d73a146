// SPDX-License-Identifier: Apache-2.0
// Indented C++ text with scopes: an index expression is given a name once a scope and reused.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "rooftile/base/expr.h"

namespace rooftile::codegen {

std::string c_symbol(const std::string& name);  // "x.s0" -> "s_x_s0": user names never meet ours

class Writer {
 public:
  void line(const std::string& text);
  void open(const std::string& head);  // "for (...)" -> "for (...) {" and a new scope
  void close(const std::string& tail = "}");
  // Inside, expressions are written out anew: an outer symbol has been given another meaning.
  size_t hide_names() {
    const size_t old = visible_from_;
    visible_from_ = names_.size();
    return old;
  }
  void show_names(size_t old) { visible_from_ = old; }

  // C text of an expression. `let` names it in the current scope when it is more than a symbol or
  // number.
  std::string expr(const Expr& e);
  std::string let(const Expr& e);

  std::string fresh(const std::string& stem) { return stem + std::to_string(counter_++); }
  std::string take() { return std::move(text_); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  int indent_ = 1;
  int counter_ = 0;
  size_t visible_from_ = 0;
  std::vector<std::map<std::string, std::string>> names_{1};
};

}  // namespace rooftile::codegen
