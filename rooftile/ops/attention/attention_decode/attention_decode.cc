// SPDX-License-Identifier: Apache-2.0
// O = softmax(scale q K^T) V for one new query a sequence over its cache, dense or paged.
//
// The query heads that share a KV head are the rows of one small product, so that the cache is read
// once. A key range in several splits fills the machine when there are few sequences: each split
// leaves its unnormalised output, maximum and sum in workspaces, and a second phase merges them.
// Splits are cut from the sequence's own length at run time; one without keys is neutral in the
// merge (m = -inf, l = 0). No load touches a token at or beyond the length, nor the block-table
// entries behind it. Blocks of a paged cache begin at multiples of their size, so that a run of
// rows lies in one page: the first of them may begin before the window, and is masked.
#include <algorithm>
#include <limits>

#include "rooftile/ops/attention/attention_contract.h"
#include "rooftile/ops/attention/attention_decode/attention_decode_raw.h"
#include "rooftile/ops/attention/attention_program.h"
#include "rooftile/ops/strips_sm90.h"

namespace rooftile::ops {

void attention_decode_ref(RefCall& call);

namespace {

using dsl::all;
using dsl::Index;
using dsl::Kernel;
using dsl::Range;
using dsl::Tile;

enum KvLayout : int64_t { kDense, kPaged };

// Where keys [j, j + count) of sequence b lie, and their rows of one KV head: [count, D].
struct CacheBlock {
  Kernel& k;
  Index b, kv_head, j, count;
  Tile page, slot;  // [count]; paged caches only

  CacheBlock(Kernel& kernel, bool paged, Index sequence, Index head, Index first, Index keys)
      : k(kernel), b(sequence), kv_head(head), j(first), count(keys) {
    if (!paged) return;
    Tile token = k.iota(count, j);
    Tile page_size = k.index(k.dim("S")).to(DType::kI32);
    page = k.load(k["block_table"](b, floor_div(token, page_size)), "page");
    slot = mod(token, page_size).named("slot");
  }

  Tile load(const char* cache) const {
    return page.valid() ? k.load(k[cache](page, slot, kv_head, all), cache)
                        : k.load(k[cache](b, dsl::range(j, count), kv_head, all), cache);
  }
};

bool is_paged(const Config& config) { return config.flag("kv_layout") == kPaged; }

// First key inside the window of the only query, which stands at the last position.
Index first_key(const Index& length) { return max(length - 1 - left_reach(), Expr(0)); }

// Where the first block of keys begins.
Index first_block(Kernel& k, const Config& config, const Index& length) {
  const Index first = first_key(length), BN = k.tile_param("BN");
  return is_paged(config) ? first / BN * BN : first;
}

// -inf for keys before the window, which only the first block of a paged cache can hold.
Tile in_window(Kernel& k, const Config& config, const Tile& scores, const Range& keys,
               const Index& length) {
  if (!is_paged(config)) return scores;
  const Tile seen = k.iota({1, 1}, 1, first_key(length)) <= k.iota({1, keys.extent}, 1, keys.begin);
  return where_(seen, scores, k.full({}, -std::numeric_limits<double>::infinity()));
}

// The softmax state of the group's query heads [G, D] after keys [begin, end) of a sequence.
std::vector<Tile> attend(Kernel& k, const Config& config, const Index& b, const Index& kv_head,
                         const Index& begin, const Index& end) {
  const Index G = group_size(), BN = k.tile_param("BN"), length = k["lengths"].at(b);
  Tile q = k.load(k["q"](b, dsl::range(kv_head * G, G), all), "q");  // [G, D]
  return k.loop("j", begin, end, BN, empty_state(k, G, k.dim("D")),
                [&](Index j, std::vector<Tile> state) {
                  const Range block_keys = dsl::range(j, min(BN, end - j));
                  const CacheBlock block(k, is_paged(config), b, kv_head, j, block_keys.extent);
                  Tile keys = block.load("k"), v = block.load("v");         // [BN, D]
                  Tile scores = logits(k, config, mma(q, keys.t(), "qk"));  // [G, BN]
                  return softmax_step(state, in_window(k, config, scores, block_keys, length), v);
                });
}

void single(Kernel& k, const Config& config) {
  const Index G = group_size();
  const dsl::Tensor lengths = k["lengths"];
  k.tiles({{"b", k.dim("B")}, {"hkv", k.dim("Hkv")}}, [&](std::vector<Index> at) {
    const Index b = at[0], length = lengths.at(b);
    const Range heads = dsl::range(at[1] * G, G);
    const std::vector<Tile> state =
        attend(k, config, b, at[1], first_block(k, config, length), length);
    Tile sink;
    if (config.has("sink")) sink = k.load(k["sink"](heads, dsl::new_axis), "sink");  // [G, 1]
    k.store(k["o"](b, heads, all), state[0] * normalizer(k, config, state[1], state[2], sink));
    if (config.has("lse"))
      k.store(k["lse"](heads, b, dsl::new_axis), log_sum_exp(state[1], state[2]));
  });
}

void split(Kernel& k, const Config& config) {
  const Index B = k.dim("B"), Hq = k.dim("Hq"), D = k.dim("D"), G = group_size();
  const Index BN = k.tile_param("BN"), SPLITS = k.tile_param("SPLITS");
  const dsl::Tensor lengths = k["lengths"];
  const dsl::Tensor part_o = k.workspace("part_o", DType::kF32, {B, Hq, SPLITS, D});
  const dsl::Tensor part_m = k.workspace("part_m", DType::kF32, {B, Hq, SPLITS, 1});
  const dsl::Tensor part_l = k.workspace("part_l", DType::kF32, {B, Hq, SPLITS, 1});

  k.tiles({{"b", B}, {"split", SPLITS}, {"hkv", k.dim("Hkv")}}, [&](std::vector<Index> at) {
    const Index b = at[0], length = lengths.at(b), first = first_block(k, config, length);
    // Whole blocks a split: only the last one of a sequence is short.
    const Index keys = ceil_div(ceil_div(length - first, BN), SPLITS) * BN;
    const Index begin = first + at[1] * keys;
    const auto state = attend(k, config, b, at[2], begin, min(length, begin + keys));
    const Range heads = dsl::range(at[2] * G, G);
    k.store(part_o(b, heads, at[1], all), state[0]);
    k.store(part_m(b, heads, at[1], all), state[1]);
    k.store(part_l(b, heads, at[1], all), state[2]);
  });
  k.tiles({{"b", B}, {"h", Hq}}, [&](std::vector<Index> at) {
    const Index b = at[0], h = at[1];
    Tile m = k.load(part_m(b, h, all, all));                   // [SPLITS, 1]
    Tile largest = reduce_max(m, 0);                           // [1, 1]
    Tile weight = exp2(m - finite_base(largest));              // [SPLITS, 1]
    Tile l = sum(weight * k.load(part_l(b, h, all, all)), 0);  // [1, 1]
    Tile o = sum(weight * k.load(part_o(b, h, all, all)), 0);  // [1, D]
    Tile sink;
    if (config.has("sink")) sink = k.load(k["sink"](h), "sink");
    const Range head = dsl::range(h, 1);
    k.store(k["o"](b, head, all), o * normalizer(k, config, largest, l, sink));
    if (config.has("lse")) k.store(k["lse"](head, dsl::range(b, 1)), log_sum_exp(largest, l));
  });
}

// Sequences times KV heads from which on every thread has work without splitting.
constexpr int64_t kEnoughTiles = 64;

int64_t capacity(const Config& config, const Env& dims) {
  return dims.at("S") * (is_paged(config) ? dims.at("MP") : 1);
}

// Hopper: the query heads of a group are rows of one tensor-core product; what counts is how many
// bytes of keys and values are on their way. Two CTAs a multiprocessor, three blocks ahead each.
// Threads bring the keys, dense or paged: boxes of the copy engine, one a page or one a block, came
// to 4.0 TB/s where threads come to 4.2 and 4.4.
Schedule sm90_decode(const Config& config, const Env& dims) {
  Schedule s;
  s.name = "wgmma_64x64";
  s.tile = {{"BN", 64}};
  s.gpu.dims = {{"D", dims.at("D")}, {"Hq", dims.at("Hq")}, {"Hkv", dims.at("Hkv")}};
  if (is_paged(config)) s.gpu.dims["S"] = dims.at("S");  // divisions by it become shifts
  s.gpu.roles = {{.name = "feed", .groups = 1, .regs = 72, .runs = {"q", "k", "v"}},
                 {.name = "mma", .groups = 1, .regs = 176, .runs = {"qk", "pv"}}};
  s.gpu.ctas_per_sm = 2;
  s.gpu.copy["q"].via = gpu::Via::kTma;
  for (const char* cache : {"k", "v"}) s.gpu.copy[cache].via = gpu::Via::kCpAsync;
  s.gpu.rings = {
      {.copies = {"q"}, .depth = 1}, {.copies = {"k"}, .depth = 3}, {.copies = {"v"}, .depth = 3}};
  s.gpu.product["qk"] = {};
  s.gpu.product["pv"] = {.a_registers = true};
  s.gpu.loop["j"].late = "pv";
  s.gpu.fast = {"p"};
  return s;
}

// Tensor cores take 16-bit types and whole 128-byte rows.
bool sm90_takes(const Config& config, const Env& dims) {
  const int64_t D = dims.at("D"), Hkv = dims.at("Hkv");
  return size_bytes(config.dtype("q")) == 2 && (D == 64 || D == 128) && Hkv > 0 &&
         dims.at("Hq") / Hkv <= 64;
}

constexpr int64_t kTilesPerThread = 4;
constexpr int64_t kWidestGang = 8;

Schedule gpu_schedule(const Config& config, const Env& dims) {
  Schedule by_fma = sm90_fma_attention(1, dims.at("D"));
  by_fma.tile.erase("BM");
  by_fma.gpu.dims = {{"D", dims.at("D")}, {"Hq", dims.at("Hq")}, {"Hkv", dims.at("Hkv")}};
  if (!sm90_takes(config, dims)) return by_fma;
  Schedule s = sm90_decode(config, dims);
  s.otherwise = {by_fma};
  return s;
}

Schedule cpu_schedule(const Config& config, const Env& dims, const TargetInfo& target) {
  Schedule s;
  s.name = "single";
  s.tile = {{"BN", 128}};
  s.dynamic = true;  // lengths differ
  if (is_paged(config)) s.keep = {"page", "slot"};
  // Keys and values are read once: multiplied where they lie, in whole tiles.
  if (target.amx_bf16 && config.dtype("q") == DType::kBf16 && dims.at("D") % 32 == 0)
    s.operand = {{"k", OperandForm::kDirect}, {"v", OperandForm::kDirect}};
  return s;
}

// A cache keeps the heads of a token side by side, so on a CPU they advance through it together, a
// block of tokens that stays in L2 at a time: that reads memory in order. `sequences` (or splits of
// them) are shared out among the threads; a gang is no wider than leaves enough tiles for them.
void gang_heads(Schedule* s, int64_t sequences, const Env& dims, const TargetInfo& target) {
  const int64_t heads = dims.at("Hkv");
  const int64_t widest = sequences * heads / (kTilesPerThread * target.threads);
  const int64_t width = std::min({widest, heads, kWidestGang});
  if (width < 2) return;
  s->gang = {{"hkv", width}};
  s->tile["BN"] = 64;
}

Schedule single_schedule(const Config& config, const Env& dims, const TargetInfo& target) {
  if (target.gpu) return gpu_schedule(config, dims);
  Schedule s = cpu_schedule(config, dims, target);
  gang_heads(&s, dims.at("B"), dims, target);
  return s;
}

// Enough tiles for every thread, or two for every multiprocessor, as long as a split keeps two
// blocks of keys.
int64_t num_splits(const Config& config, const Env& dims, const TargetInfo& target, int64_t BN) {
  const int64_t together = target.gpu ? 1 : kWidestGang;
  const int64_t gangs = (dims.at("Hkv") + together - 1) / together;
  const int64_t tiles = std::max<int64_t>(dims.at("B") * gangs, 1);
  const int64_t workers =
      target.gpu ? 2 * target.multiprocessors : kTilesPerThread * target.threads;
  const int64_t wanted = (workers + tiles - 1) / tiles;
  const int64_t most = capacity(config, dims) / (2 * BN);
  return std::clamp<int64_t>(std::min(wanted, most), 2, 64);
}

Schedule split_schedule(const Config& config, const Env& dims, const TargetInfo& target) {
  Schedule s = target.gpu ? gpu_schedule(config, dims) : cpu_schedule(config, dims, target);
  s.name = "split";
  const int64_t splits = num_splits(config, dims, target, s.tile["BN"]);
  s.tile["SPLITS"] = splits;
  s.gpu.dependent_launch = true;  // the join of the splits starts as the splits end
  for (Schedule& other : s.otherwise) {
    other.tile["SPLITS"] = splits;
    other.gpu.dependent_launch = true;
  }
  if (!target.gpu) gang_heads(&s, dims.at("B") * splits, dims, target);
  return s;
}

Status refuse_decode(const Config& config) {
  if (config.has("block_table") == is_paged(config)) return {};
  Diag diag;
  diag.code = ErrorCode::kUnsupported;
  diag.message = "a block table belongs to a paged cache, and to that alone";
  diag.argument = "block_table";
  diag.found = is_paged(config) ? "absent" : "given";
  diag.expected = "present exactly with kv_layout paged";
  return diag;
}

}  // namespace

OpDef attention_decode() {
  const Expr B = Expr::sym("B"), Hq = Expr::sym("Hq"), Hkv = Expr::sym("Hkv");
  const Expr D = Expr::sym("D"), P = Expr::sym("P"), S = Expr::sym("S"), MP = Expr::sym("MP");
  const Expr is_dense = Expr::sym("kv_layout") == Expr(kDense);
  const Expr capacity_of_row = select(is_dense, S, MP * S);
  OpDef op("attention", "attention_decode", "attention of one new query a sequence over its cache");
  op.out({.name = "o", .shape = {B, Hq, D}, .same_dtype_as = "q", .doc = "output"})
      .out({.name = "lse",
            .shape = {Hq, B},
            .dtypes = {DType::kF32},
            .optional = true,
            .doc = "natural-log sum of exponentials; -inf for an empty sequence"})
      .in({.name = "q",
           .shape = {B, Hq, D},
           .dtypes = {DType::kBf16, DType::kF16, DType::kF32},
           .doc = "the query of each sequence, at its last position"})
      .in({.name = "k",
           .shape = {P, S, Hkv, D},
           .same_dtype_as = "q",
           .doc = "keys. paged: P pages of S tokens. dense: P = B rows of S tokens. Only the "
                  "innermost stride is fixed, so head-major caches (HND) are views of this"})
      .in({.name = "v", .shape = {P, S, Hkv, D}, .same_dtype_as = "q", .doc = "values, alike"})
      .in({.name = "lengths",
           .shape = {B},
           .dtypes = {DType::kI32},
           .doc = "tokens in each sequence's cache, the query's own included; 0: output 0"})
      .in({.name = "block_table",
           .shape = {B, MP},
           .dtypes = {DType::kI32},
           .optional = true,
           .doc = "pages of each sequence in order, with kv_layout paged. Entries beyond the "
                  "length are not read"});
  declare_logits(op);
  op.int_attr({.name = "window_left",
               .is_float = false,
               .default_value = -1,
               .min = -1,
               .max = kMaxWindow,
               .has_range = true,
               .doc = "keys visible before the query's own position; -1: all"})
      .choice("kv_layout", {"dense", "paged"}, "how the cache is laid out")
      .needs(!is_dense || P == B, "a dense cache has one row a sequence")
      .needs(is_dense || S >= Expr(1), "a page holds at least one token")
      .needs(capacity_of_row <= Expr(kMaxTokens), "positions are 32-bit")
      .index_range("lengths", 0, capacity_of_row + 1, "a sequence fits its part of the cache")
      .index_range_used("block_table", 0, P, "lengths", S, "a page in use exists")
      .refuse(refuse_decode)
      .source("Dao et al. 2023, Flash-Decoding; paged caches: Kwon et al. 2023, arXiv:2309.06180")
      .reference(attention_decode_ref)
      .kernel({.name = "single",
               .build = single,
               .schedule = single_schedule,
               .applies =
                   [](const Config&, const Env& dims, const TargetInfo&) {
                     return dims.at("B") * dims.at("Hkv") >= kEnoughTiles;
                   }})
      .kernel({.name = "split", .build = split, .schedule = split_schedule})
      .kernel(decode_raw_kernel())
      .inputs(decode_inputs)
      .cost(decode_cost)
      .tolerance(attention_tolerance)
      .cases(R"(
B=1 P=1 S=1 Hq=1 Hkv=1 D=8 scale=0.35 : smoke,ci
B=0 P=0 S=16 Hq=2 Hkv=1 D=16 : smoke,ci
B=7 P=7 S=40 Hq=4 Hkv=2 D=16 lse=1 : smoke,ci
B=7 P=7 S=40 Hq=7 Hkv=1 D=24 lse=1 dtype=f32 : smoke,ci
B=32 P=32 S=20 Hq=4 Hkv=2 D=16 lse=1 : smoke,ci
B=32 P=32 S=20 Hq=4 Hkv=2 D=16 sink=1 window_left=6 softcap_on=1 softcap=3 : smoke,ci
B=7 P=7 S=300 Hq=4 Hkv=4 D=32 window_left=100 dtype=f16 : smoke,ci
B=7 P=30 S=4 MP=12 block_table=1 kv_layout=paged Hq=4 Hkv=2 D=16 lse=1 : smoke,ci
B=7 P=40 S=16 MP=5 block_table=1 kv_layout=paged Hq=7 Hkv=1 D=64 : smoke,ci
B=35 P=120 S=3 MP=9 block_table=1 kv_layout=paged Hq=6 Hkv=2 D=16 dtype=f32 sink=1 lse=1 : smoke,ci
B=5 P=3 S=1 MP=9 block_table=1 kv_layout=paged Hq=2 Hkv=2 D=16 window_left=0 : smoke,ci
B=9 P=9 S=70 Hq=24 Hkv=2 D=96 lse=1 : smoke,ci
B=33 P=90 S=5 MP=9 block_table=1 kv_layout=paged Hq=9 Hkv=3 D=32 lse=1 : smoke,ci
B=3 P=3 S=50 Hq=20 Hkv=1 D=160 : smoke,ci
B=3 P=3 S=1000 Hq=32 Hkv=2 D=128 lse=1 : ci
B=8 P=200 S=64 MP=17 block_table=1 kv_layout=paged Hq=32 Hkv=8 D=128 lse=1 : ci
B=64 P=64 S=257 Hq=8 Hkv=2 D=64 dtype=f16 : ci
B=7 P=60 S=16 MP=8 block_table=1 kv_layout=paged Hq=16 Hkv=2 D=128 lse=1 : ci
B=300 P=300 S=70 Hq=8 Hkv=2 D=128 lse=1 : ci
B=33 P=150 S=1 MP=9 block_table=1 kv_layout=paged Hq=4 Hkv=2 D=64 lse=1 : smoke,ci
B=3 P=9 S=32 MP=6 block_table=1 kv_layout=paged Hq=4 Hkv=1 D=128 window_left=70 dtype=f16 sink=1 : smoke,ci
B=1 P=1 S=2048 Hq=14 Hkv=2 D=64 scale=0.125 : ci
B=32 P=32 S=4096 Hq=32 Hkv=8 D=128 : llm
B=32 P=8192 S=16 MP=256 block_table=1 kv_layout=paged Hq=32 Hkv=8 D=128 : llm
B=32 P=131072 S=1 MP=4096 block_table=1 kv_layout=paged Hq=32 Hkv=8 D=128 : llm
B=32 P=2048 S=64 MP=64 block_table=1 kv_layout=paged Hq=32 Hkv=8 D=128 : llm
B=1 P=1024 S=16 MP=1024 block_table=1 kv_layout=paged Hq=32 Hkv=8 D=128 : llm
B=1 P=1 S=16384 Hq=32 Hkv=8 D=128 : llm
B=16 P=16 S=4096 Hq=14 Hkv=2 D=64 scale=0.125 : llm
B=1 P=1 S=131072 Hq=32 Hkv=8 D=128 : full
B=64 P=64 S=4096 Hq=32 Hkv=8 D=128 : large
B=64 P=16384 S=16 MP=256 block_table=1 kv_layout=paged Hq=32 Hkv=8 D=128 : large
B=32 P=16384 S=8 MP=512 block_table=1 kv_layout=paged Hq=32 Hkv=8 D=128 : full
B=32 P=4096 S=32 MP=128 block_table=1 kv_layout=paged Hq=32 Hkv=8 D=128 : full
B=32 P=1024 S=128 MP=32 block_table=1 kv_layout=paged Hq=32 Hkv=8 D=128 : full
)");
  return op;
}

}  // namespace rooftile::ops
