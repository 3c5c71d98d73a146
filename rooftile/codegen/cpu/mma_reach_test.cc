// SPDX-License-Identifier: Apache-2.0
// How far a product reaches beyond its operands: what verify/cpu takes for granted of the text in
// mma_text.cc. The buffers of C, A and B are exactly as large as scratch.h makes them and end at a
// page that nobody may touch, so a step too far is a fault.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "rooftile/codegen/cpu/mma_text.h"
#include "rooftile/codegen/cpu/prelude.h"
#include "rooftile/codegen/cpu/scratch.h"
#include "rooftile/runtime/cpu/library.h"
#include "rooftile/toolchain/disk_cache.h"
#include "rooftile/toolchain/host_cc.h"

namespace rooftile::codegen {
namespace {

// `bytes` bytes, the last of them just before a page without access.
class Fenced {
 public:
  explicit Fenced(size_t bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_ = (bytes + page - 1) / page * page + page;
    start_ = static_cast<char*>(
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(start_ + size_ - page, page, PROT_NONE);
    data_ = start_ + size_ - page - bytes;
  }
  ~Fenced() { munmap(start_, size_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;
  char* data() const { return data_; }

 private:
  char *start_ = nullptr, *data_ = nullptr;
  size_t size_ = 0;
};

using Product = void (*)(const char* a, int64_t pa, const int32_t* b, int64_t pb, void* c,
                         int64_t ldc, int64_t m, int64_t n, int64_t kw, int first);

void stays_inside(Product product, int64_t m, int64_t n, int64_t words) {
  ScratchPart c, a, b;
  c.form = ScratchPart::kRows;
  c.extents = {m, n};
  c.pitch_unit = kPanelColumns;
  c.pitch_pad = 16;
  c.whole_tiles = true;
  a.form = ScratchPart::kPackedRows;
  a.extents = {m, words};
  b.form = ScratchPart::kPanels;
  b.extents = {n, words};
  const Fenced c_data(static_cast<size_t>(bytes(c).value() - kVectorRoom * 4)),
      a_data(static_cast<size_t>(bytes(a).value())), b_data(static_cast<size_t>(bytes(b).value()));
  for (const int first : {1, 0})
    product(a_data.data(), pitch(a).value(), reinterpret_cast<const int32_t*>(b_data.data()),
            pitch(b).value(), c_data.data(), pitch(c).value(), m, n, words, first);
}

TEST(MmaReach, ProductsStayInTheirTilesPanelsAndWordRows) {
  TargetInfo target = host_target();
  for (const MmaMechanism wish : {MmaMechanism::kAuto, MmaMechanism::kLanes})
    for (const DType dtype : {DType::kBf16, DType::kI8, DType::kF32}) {
      MmaUnit unit;
      ASSERT_TRUE(choose_unit(dtype, wish, target, &unit));
      const std::string name = unit_info(unit).name;
      const bool amx = unit_info(unit).amx;
      std::string text = cpu_prelude(target) + packing_text() + (amx ? amx_setup_text() : "") +
                         mma_text(unit, target, 4096);
      text +=
          "extern \"C\" void product(const char* a, i64 pa, const i32* b, i64 pb, void* c, i64 "
          "ldc, i64 m, i64 n, i64 kw, int first) {\n" +
          std::string(amx ? "  amx_enter();\n" : "") + "  mm_" + name + "(a, pa, b, pb, (" +
          (unit_info(unit).int_acc ? "i32" : "float") + "*)c, ldc, m, n, kw, first);\n" +
          (amx ? "  amx_leave();\n" : "") + "}\n";
      auto object = compile_cached(text, cpu_flags(target), target.key());
      ASSERT_TRUE(object.ok()) << object.diag().str();
      auto library = Library::open(object->path);
      ASSERT_TRUE(library.ok()) << library.diag().str();
      auto symbol = (*library)->symbol("product");
      ASSERT_TRUE(symbol.ok()) << symbol.diag().str();
      const auto product = reinterpret_cast<Product>(*symbol);
      for (const int64_t m : {1, 2, 3, 4, 5, 12, 13, 16, 17, 31, 32, 33, 48, 49})
        for (const int64_t n : {1, 31, 32, 33, 64, 65})
          for (const int64_t words : {1, 15, 16, 17, 257}) stays_inside(product, m, n, words);
    }
}

// Rows that are not there have no address either: their words are zeros, whatever the pointers say.
TEST(MmaReach, PackingReadsNoRowThatIsNotThere) {
  using Pack = void (*)(int32_t * out, const char* const* rows, int64_t nrows, int64_t n);
  const TargetInfo target = host_target();
  for (const auto& [type, group] : {std::pair("float", 1), {"bf16", 2}, {"i8", 4}}) {
    const std::string element = type;
    const std::string head =
        "(i32* out, const " + element + "* const* rows, i64 nrows, i64 n) { pack_";
    const auto object = compile_cached(
        cpu_prelude(target) + packing_text() + "extern \"C\" void word_row" + head + "word_row<" +
            element + ">(out, 32, rows, nrows, n, 1); }\nextern \"C\" void columns" + head +
            "columns<" + element + ">(out, rows, nrows, n, 1); }\n",
        cpu_flags(target), target.key());
    ASSERT_TRUE(object.ok()) << object.diag().str();
    const auto library = Library::open(object->path);
    ASSERT_TRUE(library.ok()) << library.diag().str();
    const Fenced nowhere(0);  // what lies behind may not be touched
    const std::vector<char> row(64 * 4, 1);
    for (const auto& [name, most] : {std::pair("word_row", group), {"columns", 16}}) {
      const auto symbol = (*library)->symbol(name);
      ASSERT_TRUE(symbol.ok()) << symbol.diag().str();
      for (int64_t rows = 0; rows <= most; ++rows) {
        std::vector<const char*> at(static_cast<size_t>(most), nowhere.data());
        std::fill_n(at.begin(), rows, row.data());
        std::vector<int32_t> out(64 * 32, -1);
        reinterpret_cast<Pack> (*symbol)(out.data(), at.data(), rows, 64);
        std::vector<int64_t> ones;  // bytes, by the row that they come from
        for (int32_t word : out)
          for (int byte = 0; word != -1 && byte < 4; ++byte) ones.push_back(word >> 8 * byte & 1);
        EXPECT_EQ(std::count(ones.begin(), ones.end(), 1), rows * 64 * 4 / group)
            << name << " of " << type << ", " << rows << " rows";
      }
    }
  }
}

}  // namespace
}  // namespace rooftile::codegen
