// SPDX-License-Identifier: Apache-2.0
// O = softmax(mask(scale Q K^T)) V for whole sequences, exact, in one pass over K and V.
//
// A tile is one block of queries of one head. It visits the blocks of keys that any of its queries
// sees. The first may be cut by the left edge of the window, the last by the right edge (the
// diagonal under `causal`); in those between, the mask hides nothing, and the compiled code skips
// it.
//
// Packed sequences: block slot t belongs to sequence b iff start(b) <= t < start(b + 1) with
// start(b) = cu_q[b] / BM + b. These runs are disjoint and at least as long as the sequence has
// blocks, so that a first phase can write the owner of every slot with no prefix sum, and the
// parallel space has no more than Tq / BM + B slots whatever the lengths are.
#include <algorithm>
#include <limits>

#include "rooftile/ops/attention/attention_contract.h"
#include "rooftile/ops/attention/attention_prefill/attention_prefill_raw.h"
#include "rooftile/ops/attention/attention_program.h"
#include "rooftile/ops/strips_sm90.h"

namespace rooftile::ops {

void attention_prefill_ref(RefCall& call);

namespace {

using dsl::Index;
using dsl::Kernel;
using dsl::Range;
using dsl::Tile;

// One sequence: where its rows lie in the packed tensors.
struct Sequence {
  Index q_begin, q_len, k_begin, k_len;
};

class QueryBlock {
 public:
  QueryBlock(Kernel& k, const Config& config, const Sequence& seq, Index i, Index head, Index kv)
      : k_(k),
        config_(config),
        seq_(seq),
        BN_(k.tile_param("BN")),
        rows_(dsl::block(i, k.tile_param("BM"), seq.q_len)),
        head_(std::move(head)),
        kv_head_(std::move(kv)) {}

  void run() {
    const Range packed = dsl::range(seq_.q_begin + rows_.begin, rows_.extent);
    q_ = k_.load(k_["q"](packed, head_, dsl::all), "q");  // [BM, D]
    std::vector<Tile> state = empty_state(k_, rows_.extent, k_.dim("D"));

    // Query row r sees keys r - left .. r + right, counted from `top` at the first row.
    const Index left = left_reach(), right = right_reach(config_);
    const Index shift = seq_.k_len - seq_.q_len;  // bottom-right: the last query sees the last key
    const Index top = rows_.begin + shift, bottom = top + rows_.extent - 1;
    const Index begin = max(top - left, Expr(0)) / BN_;
    const Index end = ceil_div(min(seq_.k_len, bottom + right + 1), BN_);
    state = k_.loop("j", begin, end, 1, state, [&](Index j, std::vector<Tile> s) {
      const Range keys = keys_of(j);
      const Range at = dsl::range(seq_.k_begin + keys.begin, keys.extent);
      Tile kt = k_.load(k_["k"](at, kv_head_, dsl::all), "k");   // [BN, D]
      Tile v = k_.load(k_["v"](at, kv_head_, dsl::all), "v");    // [BN, D]
      Tile scores = logits(k_, config_, mma(q_, kt.t(), "qk"));  // [BM, BN]
      Tile key = k_.iota({1, keys.extent}, 1, keys.begin);       // [1, BN]
      Tile last = k_.iota({rows_.extent, 1}, 0, top + right);    // [BM, 1]
      Tile first = k_.iota({rows_.extent, 1}, 0, top - left);    // [BM, 1]
      Tile hidden = k_.full({}, -std::numeric_limits<double>::infinity());
      Tile seen = logical_and(key <= last, first <= key);
      return softmax_step(s, where_(seen, scores, hidden), v);
    });
    finish(packed, state);
  }

 private:
  // Keys of block j. They end with the sequence, or with the last key that a query of the block
  // sees, rounded up to whole TRIMs: a wide block of keys then costs nothing above the diagonal.
  // TRIM = BN leaves blocks whole.
  Range keys_of(const Index& j) {
    const Range block = dsl::block(j, BN_, seq_.k_len);
    const Index visible =
        rows_.begin + rows_.extent + (seq_.k_len - seq_.q_len) + right_reach(config_) - block.begin;
    const Index trim = k_.tile_param("TRIM");
    const Index cut = min(block.extent, ceil_div(visible, trim) * trim);
    return dsl::range(block.begin, select(trim < BN_, cut, block.extent));
  }

  void finish(const Range& packed, const std::vector<Tile>& state) {
    const Tile &o = state[0], &m = state[1], &l = state[2];
    Tile sink;
    if (config_.has("sink")) sink = k_.load(k_["sink"](head_), "sink");
    k_.store(k_["o"](packed, head_, dsl::all), o * normalizer(k_, config_, m, l, sink));
    if (config_.has("lse")) k_.store(k_["lse"](head_, packed, dsl::new_axis), log_sum_exp(m, l));
  }

  Kernel& k_;
  const Config& config_;
  Sequence seq_;
  Index BN_;
  Range rows_;
  Index head_, kv_head_;
  Tile q_;
};

// Blocks with the most keys first: under a causal mask those at the end.
Index heaviest_first(const Config& config, const Index& t, const Index& count) {
  return config.flag("causal") != 0 ? count - 1 - t : t;
}

void one_sequence(Kernel& k, const Config& config) {
  const Index Tq = k.dim("Tq"), BM = k.tile_param("BM"), G = group_size();
  const Index blocks = ceil_div(Tq, BM);
  const Sequence seq = {0, Tq, 0, k.dim("Tk")};
  k.tiles({{"hkv", k.dim("Hkv")}, {"g", G}, {"i", blocks}}, [&](std::vector<Index> at) {
    const Index i = heaviest_first(config, at[2], blocks);
    QueryBlock(k, config, seq, i, at[0] * G + at[1], at[0]).run();
  });
}

void packed_sequences(Kernel& k, const Config& config) {
  const Index Tq = k.dim("Tq"), BM = k.tile_param("BM"), G = group_size();
  const Index B = k.dim("B1") - 1;
  const Index slots = Tq / BM + B;
  const dsl::Tensor cu_q = k["cu_q"], cu_k = k["cu_k"];
  const dsl::Tensor owner = k.workspace("owner", DType::kI32, {slots});
  const auto start = [&](const Index& b) { return cu_q.at(b) / BM + b; };

  k.tiles({"b", B}, [&](Index b) {
    const Index count = start(b + 1) - start(b);
    Tile sequence = k.index(b).to(DType::kI32);
    k.store(owner(dsl::range(start(b), count)), k.full({count}, 0.0, DType::kI32) + sequence);
  });
  k.tiles({{"hkv", k.dim("Hkv")}, {"g", G}, {"t", slots}}, [&](std::vector<Index> at) {
    const Index t = heaviest_first(config, at[2], slots);
    const Index b = owner.at(t), i = t - start(b);
    const Sequence seq = {cu_q.at(b), cu_q.at(b + 1) - cu_q.at(b), cu_k.at(b),
                          cu_k.at(b + 1) - cu_k.at(b)};
    k.when(i * BM < seq.q_len,
           [&] { QueryBlock(k, config, seq, i, at[0] * G + at[1], at[0]).run(); });
  });
}

// Sequences of up to so many queries are short: what a tile does beside its products shows.
constexpr int64_t kShort = 3072;

// Tiles from which a persistent grid is faster: where they are few waves, CTAs that take the next
// tile whenever they are done even them out better than static strides.
constexpr int64_t kManyTiles = 1024;

// Hopper: two groups of 64 queries, the product with V one step late, beside the exponentials.
//
// Long sequences: a CTA a tile, those of a group of heads side by side on the same keys. Short ones
// on a persistent grid: the next tile's queries and keys are on their way during this one's last
// steps, and the heads of a block of queries follow each other, so that blocks come heaviest first.
// Measured on an H200 (TFLOP/s, causal, 32/8 heads of 128): 16 packed sequences of 1024 queries 364
// and 421, 8 of 2048 477 and 531, 4 of 4096 585 and 554. The groups take turns: 1 to 3 %. Few tiles
// gain nothing: 256 of them (1024 queries) 25.9 and 28.0 us, 512 (2048) 74.1 and 76.6.
Schedule sm90_prefill(const Config& config, const Env& dims) {
  const bool packed = config.has("cu_q");
  const int64_t sequences = packed ? std::max<int64_t>(dims.at("B1") - 1, 1) : 1;
  const bool is_short = dims.at("Tq") / sequences <= kShort;
  const int64_t blocks = dims.at("Tq") / 128 + sequences;
  const bool walks = is_short && blocks * dims.at("Hq") >= kManyTiles;
  const std::string block = packed ? "t" : "i";
  Schedule s;
  s.name = walks ? "wgmma_128x128_short" : is_short ? "wgmma_128x128_few" : "wgmma_128x128";
  s.tile = {{"BM", 128}, {"BN", 128}, {"TRIM", 128}};
  s.gpu.dims = {{"D", dims.at("D")}};
  s.gpu.roles = {{.name = "feed", .groups = 1, .regs = 24, .runs = {"q"}},
                 {.name = "mma", .groups = 2, .regs = 240, .runs = {"qk", "pv"}}};
  for (const char* load : {"q", "k", "v"}) s.gpu.copy[load].via = gpu::Via::kTma;
  // A block of queries may end inside the tensor: by the warps, not by boxes.
  s.gpu.copy["o"].staging_columns = 64;
  s.gpu.product["qk"] = {};
  s.gpu.product["pv"] = {.a_registers = true};
  s.gpu.loop["j"].late = "pv";
  s.gpu.fast = {"p"};  // weights below 2^-126 of the largest are lost in the sums anyway
  s.gpu.rings = {{.copies = {"q"}, .depth = walks ? 2 : 1},
                 {.copies = {"k"}, .depth = 2},
                 {.copies = {"v"}, .depth = 2}};
  s.gpu.turns = {{.loop = "j", .each_step = true}};
  if (walks) s.gpu.grid = gpu::Grid::kPersistent;
  s.gpu.order.axes = is_short ? gpu::Labels{block, "hkv", "g"} : gpu::Labels{"hkv", block, "g"};
  return s;
}

// Tensor cores take 16-bit types, whole 128-byte rows and a sequence that ends where its tensor
// does.
bool sm90_takes(const Config& config, const Env& dims) {
  const int64_t D = dims.at("D");
  return size_bytes(config.dtype("q")) == 2 && (D == 64 || D == 128);
}

// Where the copy engine does not take the alignment. Packed calls find the owners of blocks in a
// workspace that the schedules of one kernel share: their blocks are of one size.
Schedule behind(const Schedule& fragments, const Config& config, const Env& dims) {
  const int64_t queries = config.has("cu_q") ? fragments.tile.at("BM") : dims.at("Tq");
  Schedule s = sm90_strips_attention(queries, dims.at("D"), config.dtype("q"));
  if (!config.has("cu_q")) return s;
  s.name += "_tall";
  s.tile["BM"] = fragments.tile.at("BM");
  s.gpu.strips.threads = static_cast<int>(2 * s.tile["BM"]);
  s.gpu.ctas_per_sm = 1;
  return s;
}

Schedule prefill_schedule(const Config& config, const Env& dims, const TargetInfo& target) {
  if (target.gpu) {
    const bool by_fragments = sm90_takes(config, dims);
    Schedule s = by_fragments
                     ? sm90_prefill(config, dims)
                     : sm90_strips_attention(dims.at("Tq"), dims.at("D"), config.dtype("q"));
    if (by_fragments) s.otherwise = {behind(s, config, dims)};
    for (Schedule* strips : {&s, by_fragments ? &s.otherwise[0] : &s}) {
      if (!strips->gpu.roles.empty()) continue;
      strips->tile["TRIM"] = strips->tile.at("BN");
      strips->gpu.dims = {{"D", dims.at("D")}};
    }
    return s;
  }
  Schedule s;
  s.name = "prefill";
  s.tile = {{"BM", 64}, {"BN", 256}, {"TRIM", 64}};
  // Blocks of K and V come from L2 for all but the first query block: fetching them ahead would
  // only take load slots.
  s.prefetch_bytes = 0;
  s.dynamic = true;  // blocks differ in their number of keys
  if (config.has("cu_q")) {
    // Sequences start anywhere, so K and V are packed for each block of queries: tall blocks. Deep
    // heads take half the queries, for the same size of output.
    if (dims.at("Tq") > 64) s.tile["BM"] = dims.at("D") > 128 ? 128 : 256;
    return s;
  }
  // Measured with AMX at 2048 queries, D = 128, causal: 64 queries 1.04 TFLOP/s, 256 queries with
  // K and V packed for each block of them 0.87.
  const int64_t blocks = (dims.at("Tq") + 63) / 64 * std::max<int64_t>(dims.at("Hq"), 1);
  if (blocks > dims.at("Hkv")) s.operand = {{"k", OperandForm::kAhead}, {"v", OperandForm::kAhead}};
  return s;
}

Status refuse_prefill(const Config& config) {
  if (config.has("cu_q") == config.has("cu_k")) return {};
  Diag diag;
  diag.code = ErrorCode::kUnsupported;
  diag.message = "sequence offsets come for queries and keys together";
  diag.argument = config.has("cu_q") ? "cu_k" : "cu_q";
  diag.found = "absent";
  diag.expected = "both cu_q and cu_k, or neither for one sequence";
  return diag;
}

}  // namespace

OpDef attention_prefill() {
  const Expr Tq = Expr::sym("Tq"), Tk = Expr::sym("Tk"), Hq = Expr::sym("Hq");
  const Expr Hkv = Expr::sym("Hkv"), D = Expr::sym("D"), B1 = Expr::sym("B1");
  OpDef op("attention", "attention_prefill", "attention of whole (packed) sequences");
  op.out({.name = "o", .shape = {Tq, Hq, D}, .same_dtype_as = "q", .doc = "output"})
      .out({.name = "lse",
            .shape = {Hq, Tq},
            .dtypes = {DType::kF32},
            .optional = true,
            .doc = "natural-log sum of exponentials of each row; -inf where no key is visible"})
      .in({.name = "q",
           .shape = {Tq, Hq, D},
           .dtypes = {DType::kBf16, DType::kF16, DType::kF32},
           .doc = "queries of all sequences, one after the other; any strides but the innermost, "
                  "so a [B, H, S, D] tensor of one sequence is a view of this"})
      .in({.name = "k", .shape = {Tk, Hkv, D}, .same_dtype_as = "q", .doc = "keys, packed alike"})
      .in({.name = "v", .shape = {Tk, Hkv, D}, .same_dtype_as = "q", .doc = "values"})
      .in({.name = "cu_q",
           .shape = {B1},
           .dtypes = {DType::kI32},
           .optional = true,
           .doc = "first query row of each sequence, and Tq: B1 = sequences + 1 entries. Equal "
                  "neighbours: an empty sequence. Absent with cu_k: one sequence"})
      .in({.name = "cu_k",
           .shape = {B1},
           .dtypes = {DType::kI32},
           .optional = true,
           .doc = "first key row of each sequence, and Tk"});
  declare_logits(op);
  op.int_attr({.name = "window_left",
               .is_float = false,
               .default_value = -1,
               .min = -1,
               .max = kMaxWindow,
               .has_range = true,
               .doc = "keys visible before a query's own position; -1: all"})
      .int_attr({.name = "window_right",
                 .is_float = false,
                 .default_value = -1,
                 .min = -1,
                 .max = kMaxWindow,
                 .has_range = true,
                 .doc = "keys visible after a query's own position; -1: all"})
      .flag("causal", false,
            "no key after a query's own position, which counts from the end of the keys "
            "(bottom-right): query i of Sq sees keys up to i + Sk - Sq")
      .needs(Expr::sym("causal") == Expr(0) || Expr::sym("window_right") <= Expr(0),
             "a causal query sees nothing to its right")
      .needs(B1 >= Expr(1), "offsets have one entry more than there are sequences")
      .first_is("cu_q", 0, "the first sequence starts at row 0")
      .first_is("cu_k", 0, "the first sequence starts at row 0")
      .non_decreasing("cu_q", "sequences lie one after the other")
      .non_decreasing("cu_k", "sequences lie one after the other")
      .last_is("cu_q", Tq, "the last sequence ends at the last row")
      .last_is("cu_k", Tk, "the last sequence ends at the last row")
      .limit("B1", (int64_t{1} << 31) - 1)  // sequences are numbered in i32
      .limit("Tq", kMaxTokens)
      .limit("Tk", kMaxTokens)
      .refuse(refuse_prefill)
      .source(
          "Milakov and Gimelshein 2018 (online softmax), arXiv:1805.02867; Dao et al. 2022, "
          "FlashAttention, arXiv:2205.14135; window and mask conventions of FlashAttention 2.1")
      .reference(attention_prefill_ref)
      .kernel({.name = "packed",
               .build = packed_sequences,
               .schedule = prefill_schedule,
               .applies = [](const Config& config, const Env&,
                             const TargetInfo&) { return config.has("cu_q"); }})
      .kernel({.name = "one",
               .build = one_sequence,
               .schedule = prefill_schedule,
               .applies = [](const Config& config, const Env&,
                             const TargetInfo&) { return !config.has("cu_q"); }})
      .kernel(prefill_raw_kernel())
      .inputs(prefill_inputs)
      .cost(prefill_cost)
      .tolerance(attention_tolerance)
      .cases(R"(
Tq=1 Tk=1 Hq=1 Hkv=1 D=8 scale=0.35 : smoke,ci
Tq=0 Tk=5 Hq=2 Hkv=1 D=16 : smoke,ci
Tq=5 Tk=0 Hq=2 Hkv=1 D=16 lse=1 : smoke,ci
Tq=7 Tk=3 Hq=2 Hkv=1 D=64 causal=1 lse=1 : smoke,ci
Tq=17 Tk=17 Hq=4 Hkv=2 D=16 causal=1 dtype=f32 lse=1 : smoke,ci
Tq=33 Tk=40 Hq=7 Hkv=1 D=24 causal=1 dtype=f16 : smoke,ci
Tq=20 Tk=150 Hq=2 Hkv=2 D=32 lse=1 : smoke,ci
Tq=129 Tk=129 Hq=2 Hkv=1 D=16 causal=1 window_left=0 : smoke,ci
Tq=130 Tk=200 Hq=1 Hkv=1 D=16 window_left=3 window_right=2 lse=1 dtype=f32 : smoke,ci
Tq=40 Tk=300 Hq=1 Hkv=1 D=16 causal=1 window_left=130 : smoke,ci
Tq=19 Tk=31 Hq=4 Hkv=2 D=16 softcap_on=1 softcap=2.5 causal=1 lse=1 : smoke,ci
Tq=19 Tk=31 Hq=4 Hkv=2 D=16 sink=1 causal=1 lse=1 dtype=f32 : smoke,ci
Tq=9 Tk=4 Hq=2 Hkv=1 D=16 sink=1 causal=1 lse=1 : smoke,ci
Tq=60 Tk=60 B1=6 cu_q=1 cu_k=1 Hq=4 Hkv=2 D=16 causal=1 lse=1 : smoke,ci
Tq=60 Tk=300 B1=8 cu_q=1 cu_k=1 Hq=3 Hkv=1 D=16 dtype=f32 causal=1 lse=1 : smoke,ci
Tq=300 Tk=70 B1=5 cu_q=1 cu_k=1 Hq=2 Hkv=2 D=16 window_left=9 window_right=30 : smoke,ci
Tq=0 Tk=0 B1=3 cu_q=1 cu_k=1 Hq=2 Hkv=1 D=16 lse=1 : smoke,ci
Tq=0 Tk=0 B1=1 cu_q=1 cu_k=1 Hq=2 Hkv=1 D=16 : smoke,ci
Tq=300 Tk=300 Hq=2 Hkv=1 D=128 causal=1 lse=1 : ci
Tq=257 Tk=511 Hq=2 Hkv=1 D=64 causal=1 window_left=100 lse=1 : ci
Tq=127 Tk=128 Hq=12 Hkv=2 D=64 dtype=f16 : ci
Tq=77 Tk=517 Hq=4 Hkv=2 D=128 lse=1 : ci
Tq=500 Tk=130 Hq=2 Hkv=1 D=128 causal=1 lse=1 : ci
Tq=333 Tk=641 Hq=2 Hkv=1 D=64 causal=1 lse=1 : ci
Tq=128 Tk=129 Hq=1 Hkv=1 D=256 causal=1 dtype=f32 : ci
Tq=210 Tk=210 B1=5 cu_q=1 cu_k=1 Hq=2 Hkv=1 D=64 causal=1 lse=1 : smoke,ci
Tq=40 Tk=260 B1=4 cu_q=1 cu_k=1 Hq=1 Hkv=1 D=128 dtype=f16 causal=1 : smoke,ci
Tq=150 Tk=300 B1=4 cu_q=1 cu_k=1 Hq=1 Hkv=1 D=64 window_left=70 window_right=9 sink=1 lse=1 : ci
Tq=700 Tk=700 B1=17 cu_q=1 cu_k=1 Hq=4 Hkv=2 D=64 causal=1 lse=1 : ci
Tq=2000 Tk=2000 B1=1001 cu_q=1 cu_k=1 Hq=2 Hkv=1 D=16 causal=1 : ci
Tq=2048 Tk=2048 Hq=8 Hkv=8 D=128 causal=1 : llm
Tq=2048 Tk=2048 Hq=8 Hkv=2 D=128 causal=1 : llm
Tq=2048 Tk=2048 Hq=8 Hkv=2 D=128 : llm
Tq=512 Tk=512 Hq=32 Hkv=8 D=128 causal=1 : llm
Tq=512 Tk=512 Hq=14 Hkv=2 D=64 causal=1 scale=0.125 : llm
Tq=16384 Tk=16384 B1=17 cu_q=1 cu_k=1 Hq=32 Hkv=8 D=128 causal=1 : llm
Tq=16000 Tk=16000 B1=24 cu_q=1 cu_k=1 Hq=32 Hkv=8 D=128 causal=1 : llm
Tq=16384 Tk=16384 B1=9 cu_q=1 cu_k=1 Hq=32 Hkv=8 D=128 causal=1 : full
Tq=16384 Tk=16384 B1=5 cu_q=1 cu_k=1 Hq=32 Hkv=8 D=128 causal=1 : full
Tq=16384 Tk=16384 B1=2 cu_q=1 cu_k=1 Hq=32 Hkv=8 D=128 causal=1 : full
Tq=1024 Tk=1024 Hq=512 Hkv=128 D=128 causal=1 : full
Tq=8192 Tk=8192 B1=17 cu_q=1 cu_k=1 Hq=16 Hkv=4 D=64 window_left=255 lse=1 sink=1 dtype=f16 : full
Tq=4096 Tk=4096 Hq=32 Hkv=8 D=96 causal=1 : full
Tq=4096 Tk=4096 Hq=32 Hkv=8 D=80 scale=0.1118 : full
Tq=4096 Tk=4096 Hq=32 Hkv=8 D=256 causal=1 scale=0.0625 : full
Tq=4096 Tk=4096 Hq=4 Hkv=1 D=128 causal=1 : full
Tq=4096 Tk=4096 Hq=4 Hkv=1 D=128 causal=1 window_left=511 : full
Tq=16384 Tk=16384 Hq=16 Hkv=16 D=128 : large
Tq=16384 Tk=16384 Hq=16 Hkv=16 D=128 causal=1 : large
)");
  return op;
}

}  // namespace rooftile::ops
