// SPDX-License-Identifier: Apache-2.0
// Embedding lookup: out[t] = table[ids[t]], bit for bit.
//
// With zero_out_of_range an id outside the table gives a row of zeros and reads nothing: what a
// shard of a vocabulary split over several ranks must do, so that the sum over ranks is the whole
// lookup.
#include <random>

#include "rooftile/ops/numerics.h"
#include "rooftile/ops/strips_sm90.h"

namespace rooftile::ops {

using namespace dsl;

void embedding_ref(RefCall& call);

namespace {

constexpr int64_t kAnyId = int64_t{1} << 60;

void embedding_rows(Kernel& k, const Config& config) {
  Index T = k.dim("T"), V = k.dim("V"), H = k.dim("H");
  const DType dtype = config.dtype("table");
  k.tiles({"row", T}, [&](Index row) {
    Index id = k["ids"].at(row);
    auto copy_row = [&] {
      k.store(k["out"](row, all), k.load(k["table"](id, all), "table"));
    };  // [H]
    if (!config.flag("zero_out_of_range")) return copy_row();
    Index inside = Index(0) <= id && id < V;
    k.when(inside, copy_row);
    k.when(!inside, [&] { k.store(k["out"](row, all), k.full({H}, 0.0, dtype)); });
  });
}

// Some ids just outside the table where they are allowed.
void embedding_inputs(RefCall& call, uint64_t seed) {
  if (!call.config.flag("zero_out_of_range")) return;
  std::mt19937_64 random(seed);
  for (double& id : call["ids"].data)
    id = static_cast<double>(
        static_cast<int64_t>(random() % static_cast<uint64_t>(call.dim("V") + 4)) - 2);
}

}  // namespace

OpDef embedding() {
  Expr T = Expr::sym("T"), V = Expr::sym("V"), H = Expr::sym("H"),
       zero = Expr::sym("zero_out_of_range");
  return OpDef("embedding", "embedding", "gather rows of a table")
      .out({.name = "out", .shape = {T, H}, .same_dtype_as = "table", .doc = "[T, H]"})
      .in({.name = "ids",
           .shape = {T},
           .dtypes = {DType::kI32, DType::kI64},
           .doc = "[T] row of the table for each token"})
      .in({.name = "table", .shape = {V, H}, .dtypes = kFloating, .doc = "[V, H]"})
      .flag("zero_out_of_range", false, "ids outside the table give zeros instead of an error")
      .index_range("ids", select(zero, -kAnyId, 0), select(zero, kAnyId, V),
                   "an id is a row of the table")
      .source("definition")
      .reference(embedding_ref)
      .kernel({.name = "rows",
               .build = embedding_rows,
               .schedule =
                   [](const Config& config, const Env& dims, const TargetInfo& target) {
                     if (target.gpu)
                       return sm90_rows(dims.at("T"), dims.at("H"), config.dtype("table"));
                     return row_schedule();
                   }})
      .cost([](const RefCall& call) {
        double rows = static_cast<double>(call.dim("T")),
               columns = static_cast<double>(call.dim("H"));
        return Cost{
            .flops = 0,
            .bytes = bytes_of(call, "table", 2 * rows * columns) + bytes_of(call, "ids", rows)};
      })
      .tolerance([](const RefCall&) {
        return Tolerance{0, 0, 0, "a copy: exact"};
      })
      .inputs(embedding_inputs)
      .cases(R"(
        T=1 V=1 H=1 : smoke
        T=0 V=4 H=8 : smoke
        T=3 V=2 H=7 : smoke
        T=5 V=3 H=33 dtype=f32 ids=i64 : smoke
        T=9 V=3 H=17 zero_out_of_range=1 : smoke
        T=5 V=0 H=17 zero_out_of_range=1 dtype=f16 : smoke
        T=7 V=11 H=769 ids=i64 zero_out_of_range=1 : smoke
        T=64 V=1000 H=896 : ci
        T=16 V=1000 H=4096 dtype=f32 ids=i64 : ci
        T=1 V=32000 H=4096 : llm
        T=16 V=32000 H=4096 : llm
        T=4096 V=32000 H=4096 : llm
        T=512 V=151936 H=896 : llm
      )");
}

}  // namespace rooftile::ops
