// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/tape.h"

namespace rooftile::verify {

using K = ExprKind;

int Tape::slot(int64_t value) {
  values_.push_back(value);
  return static_cast<int>(values_.size()) - 1;
}

int Tape::input(const std::string& name) const {
  for (const auto& [known, at] : inputs_)
    if (known == name) return at;
  return -1;
}

int Tape::add(const Expr& e) {
  if (const auto it = known_.find(e.node()); it != known_.end()) return it->second;
  alive_.push_back(e);
  const auto remember = [&](int at) {
    known_[e.node()] = at;
    return at;
  };
  if (e.is_const()) return remember(slot(e.value()));
  if (e.kind() == K::kSym) {
    const Symbol* symbol = symbols_.find(e.name());
    if (symbol != nullptr && symbol->kind == SymbolKind::kDefined) {
      Op op;
      op.code = symbol->bits == Symbol::Bits::kAnd  ? Code::kAnd
                : symbol->bits == Symbol::Bits::kOr ? Code::kOr
                                                    : Code::kXor;
      op.a = add(symbol->a);
      op.b = add(symbol->b);
      op.dst = slot();
      ops_.push_back(op);
      return remember(op.dst);
    }
    if (const int known = input(e.name()); known >= 0) return remember(known);
    inputs_.emplace_back(e.name(), slot());
    return remember(inputs_.back().second);
  }
  Op op;
  op.code = e.kind() == K::kIndexLoad ? Code::kUndefined : Code::kExpr;
  op.kind = e.kind();
  if (op.code == Code::kExpr) {
    const std::vector<Expr>& args = e.args();
    op.a = add(args[0]);
    if (args.size() > 1) op.b = add(args[1]);
    if (args.size() > 2) op.c = add(args[2]);
  }
  op.dst = slot();
  ops_.push_back(op);
  return remember(op.dst);
}

bool Tape::run() {
  int64_t* v = values_.data();
  for (const Op& op : ops_) {
    const int64_t a = v[op.a], b = v[op.b];
    int64_t& to = v[op.dst];
    switch (op.code) {
      case Code::kAnd:
        to = a & b;
        continue;
      case Code::kOr:
        to = a | b;
        continue;
      case Code::kXor:
        to = a ^ b;
        continue;
      case Code::kUndefined:
        return false;
      case Code::kExpr:
        break;
    }
    switch (op.kind) {
      case K::kAdd:
        to = a + b;
        break;
      case K::kSub:
        to = a - b;
        break;
      case K::kMul:
        if (__builtin_mul_overflow(a, b, &to)) return false;
        break;
      case K::kFloorDiv:
      case K::kMod: {
        if (b == 0 || b == -1) return false;
        const int64_t quotient = a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
        to = op.kind == K::kMod ? a - quotient * b : quotient;
        break;
      }
      case K::kMin:
        to = a < b ? a : b;
        break;
      case K::kMax:
        to = a < b ? b : a;
        break;
      case K::kLt:
        to = a < b ? 1 : 0;
        break;
      case K::kLe:
        to = a <= b ? 1 : 0;
        break;
      case K::kEq:
        to = a == b ? 1 : 0;
        break;
      case K::kNe:
        to = a != b ? 1 : 0;
        break;
      case K::kAnd:
        to = a != 0 && b != 0 ? 1 : 0;
        break;
      case K::kOr:
        to = a != 0 || b != 0 ? 1 : 0;
        break;
      case K::kNot:
        to = a == 0 ? 1 : 0;
        break;
      case K::kSelect:
        to = a != 0 ? b : v[op.c];
        break;
      default:
        return false;
    }
  }
  return true;
}

}  // namespace rooftile::verify
