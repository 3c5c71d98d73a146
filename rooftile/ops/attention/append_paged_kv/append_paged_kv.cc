// SPDX-License-Identifier: Apache-2.0
// Writes the keys and values of new tokens into their slots of a paged cache.
//
// Slot s is token s % S of page s / S; -1 skips the token (a padded batch). Slots differ from one
// another: which of two tokens with the same slot stayed would not be defined.
#include "rooftile/ops/attention/attention_contract.h"
#include "rooftile/ops/numerics.h"
#include "rooftile/ops/strips_sm90.h"

namespace rooftile::ops {

void append_paged_kv_ref(RefCall& call);
void append_paged_kv_inputs(RefCall& call, uint64_t seed);

namespace {

void append_tokens(dsl::Kernel& k, const Config&) {
  const dsl::Index page_size = k.dim("S");
  const dsl::Tensor slots = k["slot_mapping"];
  k.tiles({"t", k.dim("T")}, [&](dsl::Index t) {
    const dsl::Index slot = slots.at(t);
    k.when(slot >= 0, [&] {
      const dsl::Index page = slot / page_size, token = slot % page_size;
      k.store(k["k_cache"](page, token, dsl::all, dsl::all),
              k.load(k["k_new"](t, dsl::all, dsl::all)));  // [Hkv, D]
      k.store(k["v_cache"](page, token, dsl::all, dsl::all),
              k.load(k["v_new"](t, dsl::all, dsl::all)));
    });
  });
}

// A token is a few kilobytes: hand out enough of them to be worth a thread's while.
Schedule append_schedule(const Config& config, const Env& dims, const TargetInfo& target) {
  if (target.gpu) return sm90_streamed(dims.at("Hkv") * dims.at("D"), config.dtype("k_new"), 256);
  Schedule s;
  s.name = "tokens";
  s.grain = 16;
  s.nontemporal_bytes = 0;  // the cache is read next, by attention
  return s;
}

}  // namespace

OpDef append_paged_kv() {
  const Expr T = Expr::sym("T"), P = Expr::sym("P"), S = Expr::sym("S");
  const Expr Hkv = Expr::sym("Hkv"), D = Expr::sym("D");
  return OpDef("attention", "append_paged_kv", "store new keys and values in a paged cache")
      .inout({.name = "k_cache",
              .shape = {P, S, Hkv, D},
              .same_dtype_as = "k_new",
              .doc = "P pages of S tokens; other tokens keep their values"})
      .inout({.name = "v_cache", .shape = {P, S, Hkv, D}, .same_dtype_as = "k_new", .doc = "alike"})
      .in({.name = "k_new",
           .shape = {T, Hkv, D},
           .dtypes = {DType::kBf16, DType::kF16, DType::kF32},
           .doc = "keys of the new tokens"})
      .in({.name = "v_new", .shape = {T, Hkv, D}, .same_dtype_as = "k_new", .doc = "values"})
      .in({.name = "slot_mapping",
           .shape = {T},
           .dtypes = {DType::kI64, DType::kI32},
           .doc = "slot of each token, page * S + position in it; -1: skip"})
      .needs(S >= Expr(1), "a page holds at least one token")
      .index_range("slot_mapping", -1, P * S, "a slot lies in the cache; -1 skips the token")
      .distinct_but("slot_mapping", -1, "two tokens in one slot would overwrite each other")
      .source("vLLM's reshape_and_cache: slot_mapping, -1 = skip")
      .reference(append_paged_kv_ref)
      .kernel({.name = "tokens", .build = append_tokens, .schedule = append_schedule})
      .inputs(append_paged_kv_inputs)
      .cost([](const RefCall& call) {
        const auto tokens = static_cast<double>(call.dim("T"));
        const auto row = static_cast<double>(call.dim("Hkv") * call.dim("D"));
        return Cost{.flops = 0,
                    .bytes = bytes_of(call, "k_new", 4 * tokens * row) +
                             bytes_of(call, "slot_mapping", tokens)};
      })
      .tolerance([](const RefCall&) {
        return Tolerance{0, 0, 0, "a copy: exact"};
      })
      .cases(R"(
T=1 P=1 S=1 Hkv=1 D=8 : smoke,ci
T=0 P=2 S=4 Hkv=2 D=16 : smoke,ci
T=7 P=3 S=4 Hkv=2 D=16 : smoke,ci
T=7 P=3 S=4 Hkv=2 D=16 dtype=f32 slot_mapping=i32 : smoke,ci
T=33 P=5 S=16 Hkv=1 D=24 dtype=f16 : smoke,ci
T=300 P=40 S=16 Hkv=8 D=128 : ci
T=16 P=1024 S=16 Hkv=8 D=128 : llm
T=2048 P=1024 S=16 Hkv=8 D=128 : llm
)");
}

}  // namespace rooftile::ops
