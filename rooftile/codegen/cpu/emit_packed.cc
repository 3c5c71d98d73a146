// SPDX-License-Identifier: Apache-2.0
// Right operands that are packed before the phase that multiplies by them: by the caller
// (kPrepacked, a whole rank-2 tensor) or by all threads just before (kAhead). Packed ahead, two
// dimensions of a tensor become panels, and each combination of the others has panels of its own.
//
// A block of such an operand starts at a multiple of 32 columns and of 16 words, and its words end
// where the tensor does or at a multiple of 16: what a product reads beyond the block is then
// columns that are not copied out, or zeros.
#include "rooftile/codegen/cpu/emitter.h"

namespace rooftile::codegen {

using ir::DimIndex;
using ir::Node;
using ir::Op;

namespace {

// Is `e` a multiple of `q` whatever its symbols? Decided by structure; what it cannot see it
// denies. The variable of a loop is a multiple of what its start and step are multiples of.
bool is_multiple(const ir::Program& program, const Expr& e, int64_t q) {
  const auto& a = e.args();
  auto sub = [&](const Expr& x) { return is_multiple(program, x, q); };
  switch (e.kind()) {
    case ExprKind::kConst:
      return e.value() % q == 0;
    case ExprKind::kAdd:
    case ExprKind::kSub:
    case ExprKind::kMin:
    case ExprKind::kMax:
      return sub(a[0]) && sub(a[1]);
    case ExprKind::kMul:
      return sub(a[0]) || sub(a[1]);
    case ExprKind::kSym:
      for (const Node& node : program.nodes)
        if (node.op == Op::kLoop && node.name == e.name()) return sub(node.begin) && sub(node.step);
      return false;
    default:
      return false;
  }
}

// Does a block of `extent` from `begin` on end at `total`, or have a multiple of `q` elements?
bool ends_whole(const ir::Program& program, const Expr& begin, const Expr& extent,
                const Expr& total, int64_t q) {
  if (extent.kind() == ExprKind::kMin)
    return ends_whole(program, begin, extent.args()[0], total, q) &&
           ends_whole(program, begin, extent.args()[1], total, q);
  return is_multiple(program, extent, q) || extent.same_as(total - begin);
}

// The dimension of the tensor that an axis of the loaded tile walks; -1 if it is not a range of it.
int dimension_of(const Node& load, int tile_axis) {
  for (size_t d = 0; d < load.region.size(); ++d)
    if (load.region[d].kind == DimIndex::kRange && load.region[d].tile_axis == tile_axis)
      return static_cast<int>(d);
  return -1;
}

}  // namespace

bool Emitter::is_packed_arg(const Node& load) const {
  return load.op == Op::kLoad && (packed_args_.count(load.name) || ahead_.count(load.name));
}

// Tensors whose loads the schedule takes packed: their shape as the caller passes them.
Status Emitter::place_packed_args() {
  launched_ = program_;
  for (const auto& [label, form] : schedule_.operand) {
    const Node* load = nullptr;
    for (const Node& node : program_.nodes)
      if (node.op == Op::kLoad && node.label == label) load = &node;
    Diag diag;
    diag.subject = program_.name;
    if (!load) {
      diag.code = ErrorCode::kSchedule;
      diag.message =
          "the schedule `" + schedule_.name + "` places a load that the program does not have";
      diag.found = "`" + label + "`";
      diag.fix = "use the label of a load that feeds a product";
      return diag;
    }
    if (form == OperandForm::kPack) continue;
    if (form == OperandForm::kDirect) {
      RT_RETURN_IF_ERROR(check_direct(*load));
      continue;
    }
    bool placed = false;
    for (const Node& mma : program_.nodes) {
      if (mma.op != Op::kMma || plan_.product(mma.id).b != load->id) continue;
      auto unit = unit_of(mma);
      if (!unit.ok()) return unit.status();
      const bool n_major = plan_.product(mma.id).b_transposed;
      placed = form == OperandForm::kAhead ? place_ahead(*load, *unit, n_major)
                                           : place_prepacked(*load, *unit, n_major);
      if (!placed) break;
    }
    if (!placed) {
      diag.code = ErrorCode::kPlacement;
      diag.message = form == OperandForm::kAhead
                         ? "only the right operand of a product, of ranges along two dimensions "
                           "and one element of the others, can be packed ahead"
                         : "only the right operand of a product, a whole rank-2 tensor, can be "
                           "passed packed";
      diag.argument = label;
      diag.fix = "use kPack";
      return diag;
    }
  }
  return {};
}

bool Emitter::place_prepacked(const Node& load, MmaUnit unit, bool n_major) {
  const MmaUnitInfo& info = unit_info(unit);
  for (ir::TensorParam& tensor : launched_.tensors) {
    if (tensor.name != load.name || tensor.shape.size() != 2) continue;
    PackedArg arg;
    arg.tensor = load.name;
    arg.logical = load.dtype;
    arg.packed = info.word_dtype;
    arg.n_major = n_major;
    packed_args_[load.name] = arg;
    const Expr n = tensor.shape[n_major ? 0 : 1], k = tensor.shape[n_major ? 1 : 0];
    const int64_t g = info.per_word;
    tensor.shape = {ceil_div(n, Expr(kPanelColumns)),
                    ceil_div(k, Expr(kWordAlign * g)) * Expr(kWordAlign), Expr(kPanelColumns * g)};
    tensor.dtype = info.word_dtype;
    tensor.align_bytes = 64;
    return true;
  }
  return false;
}

bool Emitter::place_ahead(const Node& load, MmaUnit unit, bool n_major) {
  AheadTensor ahead;
  ahead.unit = unit;
  ahead.n_major = n_major;
  ahead.n_dim = dimension_of(load, n_major ? 0 : 1);
  ahead.k_dim = dimension_of(load, n_major ? 1 : 0);
  if (ahead.n_dim < 0 || ahead.k_dim < 0) return false;
  for (size_t d = 0; d < load.region.size(); ++d) {
    if (static_cast<int>(d) == ahead.n_dim || static_cast<int>(d) == ahead.k_dim) continue;
    if (load.region[d].kind != DimIndex::kPoint) return false;
    ahead.others.push_back(static_cast<int>(d));
  }
  return ahead_.emplace(load.name, ahead).first->second == ahead;
}

// Whole tensors packed into the workspace before the phase that multiplies by them.
Status Emitter::emit_pack_ahead(const Node& phase) {
  for (const auto& entry : ahead_) {
    const std::string& tensor_name = entry.first;
    bool here = false;
    auto search = [&](auto&& self, const ir::Block& block) -> void {
      for (ValueId id : block.nodes) {
        const Node& node = program_.node(id);
        here |= node.op == Op::kLoad && node.name == tensor_name;
        self(self, node.block);
      }
    };
    search(search, phase.block);
    if (here) emit_pack_tensor(*program_.tensor(tensor_name), entry.second);
  }
  return {};
}

// Rows of the tensor are read in the order in which they most likely lie: the other dimensions
// inside.
void Emitter::emit_pack_tensor(const ir::TensorParam& tensor, const AheadTensor& ahead) {
  const MmaUnitInfo& info = unit_info(ahead.unit);
  auto extent = [&](int d) { return w_.let(tensor.shape[static_cast<size_t>(d)]); };
  auto stride = [&](int d) { return c_symbol(tensor.name + ".s" + std::to_string(d)); };
  const std::string n = extent(ahead.n_dim), k = extent(ahead.k_dim);
  const std::string from = memory_type(tensor.dtype), to = memory_type(info.word_dtype);
  const std::string per = std::to_string(info.per_word), step = ahead.n_major ? "16" : per;
  std::string t = "t_" + tensor.name, part = "0l";
  std::vector<std::string> bounds;
  for (int d : ahead.others) {
    const std::string at = "x" + std::to_string(d);
    bounds.push_back(extent(d));
    t += " + " + at + " * " + stride(d);
    part = "(" + part + " * " + bounds.back() + " + " + at + ")";
  }
  w_.line("#pragma omp parallel for schedule(static) num_threads(threads) collapse(" +
          std::to_string(1 + bounds.size()) + ")");
  w_.open("for (i64 c = 0; c < " +
          (ahead.n_major ? "up(" + n + ", 32)" : "up(" + k + ", 16 * " + per + ")") +
          "; c += " + step + ")");
  for (size_t i = 0; i < bounds.size(); ++i) {
    const std::string at = "x" + std::to_string(ahead.others[i]);
    w_.open("for (i64 " + at + " = 0; " + at + " < " + bounds[i] + "; " + at + "++)");
  }
  const std::string out = "ahead_" + tensor.name, panel = out + "_panel";
  w_.line("const " + from + "* rows[" + step + "];");
  w_.line("const i64 nrows = imin(" + step + ", imax(" + (ahead.n_major ? n : k) + " - c, 0));");
  w_.line("for (i64 r = 0; r < nrows; r++) rows[r] = " + t + " + (c + r) * " +
          stride(ahead.n_major ? ahead.n_dim : ahead.k_dim) + ";");
  w_.line("i32* const out = " + out + " + " + part + " * " + out + "_part;");
  w_.line(ahead.n_major ? "pack_columns<" + to + ">(out + c / 32 * " + panel +
                              " + c % 32, rows, nrows, " + k + ", " + stride(ahead.k_dim) + ");"
                        : "pack_word_row<" + to + ">(out + c / " + per + " * 32, " + panel +
                              ", rows, nrows, " + n + ", " + stride(ahead.n_dim) + ");");
  for (size_t i = 0; i <= bounds.size(); ++i) w_.close();
}

// Where the panel of a packed operand starts that this load asks for.
Result<std::string> Emitter::packed_arg_pointer(const Node& load, MmaUnit unit,
                                                std::string* panel_words) {
  const MmaUnitInfo& info = unit_info(unit);
  const auto found = ahead_.find(load.name);
  const bool is_ahead = found != ahead_.end();
  const bool n_major = is_ahead ? found->second.n_major : packed_args_.at(load.name).n_major;
  const int n_dim = dimension_of(load, n_major ? 0 : 1),
            k_dim = dimension_of(load, n_major ? 1 : 0);
  const int64_t k_unit = int64_t{kWordAlign} * info.per_word;
  const std::vector<Expr>& shape = program_.tensor(load.name)->shape;
  auto refused = [&] {
    Diag diag = unsupported(
        load, "a packed operand cannot be addressed as the program does",
        "take blocks of a multiple of 32 columns and " + std::to_string(k_unit) + " elements of K");
    diag.expected = "block starts that are multiples of 32 and " + std::to_string(k_unit) +
                    ", K up to the end or a multiple of " + std::to_string(k_unit);
    return diag;
  };
  if (n_dim < 0 || k_dim < 0) return refused();
  const DimIndex &n = load.region[static_cast<size_t>(n_dim)],
                 &k = load.region[static_cast<size_t>(k_dim)];
  if (n.step != 1 || k.step != 1 || !is_multiple(program_, n.begin, kPanelColumns) ||
      !is_multiple(program_, k.begin, k_unit) ||
      !ends_whole(program_, k.begin, k.extent, shape[static_cast<size_t>(k_dim)], k_unit)) {
    Diag diag = refused();
    diag.found = "columns from " + n.begin.str() + ", K from " + k.begin.str() + ", " +
                 k.extent.str() + " elements";
    return diag;
  }
  std::string base = "t_" + load.name;
  if (is_ahead) {
    base = "ahead_" + load.name;
    *panel_words = base + "_panel";
    Expr part = 0;
    for (int d : found->second.others)
      part = part * shape[static_cast<size_t>(d)] + load.region[static_cast<size_t>(d)].begin;
    base += " + (" + w_.let(part) + ") * " + base + "_part";
  } else {
    *panel_words = c_symbol(load.name + ".s0") + " / " + std::to_string(info.per_word);
  }
  return "((const i32*)" + std::string(is_ahead ? "(" : "") + base + (is_ahead ? ")" : "") + " + " +
         w_.let(n.begin / Expr(kPanelColumns)) + " * (" + *panel_words + ") + " +
         w_.let(k.begin / Expr(info.per_word)) + " * 32)";
}

}  // namespace rooftile::codegen
