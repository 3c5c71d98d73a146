// SPDX-License-Identifier: Apache-2.0
#include "rooftile/codegen/cpu/scratch.h"

#include "rooftile/codegen/cpu/mma_text.h"
#include "rooftile/codegen/cpu/writer.h"

namespace rooftile::codegen {
namespace {

Expr up(const Expr& x, int64_t to) { return ceil_div(x, Expr(to)) * Expr(to); }

std::string field_of(const ScratchPart& part) {
  return (part.form == ScratchPart::kWorkspace ? "w_" : "at_") + part.name;
}

class Printer {
 public:
  ScratchText text;

  void print(const ScratchPart& part) {
    const std::string& name = part.name;
    text.fields += "  i64 " + field_of(part);
    switch (part.form) {
      case ScratchPart::kWorkspace: {
        std::string size = std::to_string(part.element_bytes) + "l";
        for (const Expr& e : part.extents) size += " * imax(" + w_.expr(e) + ", 0)";
        text.fields += ";\n";
        return size_line(part, size);
      }
      case ScratchPart::kAhead:
        text.fields += ", " + name + "_panel, " + name + "_part;\n";
        return ahead(part);
      case ScratchPart::kFlat:
      case ScratchPart::kRows:
        text.fields += ";\n";
        return buffer(part);
      case ScratchPart::kPackedRows:
        text.fields += ", " + name + "_pitch;\n";
        text.body +=
            "  lay." + name + "_pitch = (" + w_.expr(part.extents[1]) + " + 15) / 16 * 64 + 64;\n";
        return size_line(
            part, "(" + w_.expr(part.extents[0]) + " + 31) / 32 * 32 * lay." + name + "_pitch");
      case ScratchPart::kPanels:
        text.fields += ", " + name + "_panel;\n";
        text.body += "  lay." + name + "_panel = (" + w_.expr(part.extents[1]) +
                     " + 15) / 16 * 16 * 32 + 16;\n";
        return size_line(
            part, "(" + w_.expr(part.extents[0]) + " + 31) / 32 * lay." + name + "_panel * 4");
    }
  }

 private:
  void size_line(const ScratchPart& part, const std::string& size) {
    const char* const owners[] = {"shared", "thread", "member"};
    const std::string owner = owners[part.owner];
    text.body += "  lay." + field_of(part) + " = " + owner + ";\n  " + owner + " += up64(" + size +
                 ") + 64;\n";
  }

  void ahead(const ScratchPart& part) {
    const std::string per = std::to_string(part.per_word), &name = part.name;
    std::string parts = "1l";
    for (size_t i = 2; i < part.extents.size(); ++i)
      parts += " * imax(" + w_.expr(part.extents[i]) + ", 0)";
    text.body += "  lay." + name + "_panel = (" + w_.expr(part.extents[1]) + " + 16 * " + per +
                 " - 1) / (16 * " + per + ") * 16 * 32 + 16;\n  lay." + name + "_part = (" +
                 w_.expr(part.extents[0]) + " + 31) / 32 * lay." + name + "_panel;\n";
    size_line(part, parts + " * lay." + name + "_part * 4");
  }

  void buffer(const ScratchPart& part) {
    std::string elements;
    if (part.form == ScratchPart::kFlat) {
      elements = "1l";
      for (const Expr& e : part.extents) elements += " * imax(" + w_.expr(e) + ", 0)";
    } else {
      const std::string field = "q_" + part.like;
      if (part.like == part.name) {
        const std::string unit = std::to_string(part.pitch_unit);
        text.fields += "  i64 " + field + ";\n";
        text.body += "  lay." + field + " = (" + w_.expr(part.extents.back()) + " + " +
                     std::to_string(part.pitch_unit - 1) + ") / " + unit + " * " + unit + " + " +
                     std::to_string(part.pitch_pad) + ";\n";
      }
      elements = "lay." + field;
      for (size_t d = 0; d + 1 < part.extents.size(); ++d) {
        const std::string e = "imax(" + w_.expr(part.extents[d]) + ", 0)";
        elements += " * " + (d == 0 && part.whole_tiles ? "((" + e + " + 31) / 32 * 32)" : e);
      }
    }
    elements += " + " + std::to_string(kVectorRoom);
    size_line(part, "(" + elements + ") * " + std::to_string(part.element_bytes));
  }

  Writer w_;
};

}  // namespace

static_assert(kTileRows == 32 && kPanelColumns == 32 && kWordAlign == 16, "as the text has it");

Expr pitch(const ScratchPart& part) {
  switch (part.form) {
    case ScratchPart::kRows:
      return up(part.extents.back(), part.pitch_unit) + Expr(part.pitch_pad);
    case ScratchPart::kPackedRows:
      return up(part.extents[1], kWordAlign) * Expr(4) + Expr(64);
    case ScratchPart::kPanels:
      return up(part.extents[1], kWordAlign) * Expr(kPanelColumns) + Expr(16);
    case ScratchPart::kAhead:
      return ceil_div(part.extents[1], Expr(kWordAlign * part.per_word)) *
                 Expr(kWordAlign * kPanelColumns) +
             Expr(16);
    default:
      return 1;
  }
}

Expr bytes(const ScratchPart& part) {
  auto positive = [](const Expr& e) { return e.is_const() ? e : max(e, Expr(0)); };
  const std::vector<Expr>& e = part.extents;
  Expr out = 1;
  switch (part.form) {
    case ScratchPart::kWorkspace:
      for (const Expr& extent : e) out = out * positive(extent);
      return out * Expr(part.element_bytes);
    case ScratchPart::kAhead:
      for (size_t i = 2; i < e.size(); ++i) out = out * positive(e[i]);
      return out * (ceil_div(e[0], Expr(kPanelColumns)) * pitch(part)) * Expr(4);
    case ScratchPart::kPackedRows:
      return up(e[0], kTileRows) * pitch(part);
    case ScratchPart::kPanels:
      return ceil_div(e[0], Expr(kPanelColumns)) * pitch(part) * Expr(4);
    case ScratchPart::kFlat:
      for (const Expr& extent : e) out = out * positive(extent);
      return (out + Expr(kVectorRoom)) * Expr(part.element_bytes);
    case ScratchPart::kRows:
      out = pitch(part);
      for (size_t d = 0; d + 1 < e.size(); ++d)
        out = out * (d == 0 && part.whole_tiles ? up(positive(e[d]), kTileRows) : positive(e[d]));
      return (out + Expr(kVectorRoom)) * Expr(part.element_bytes);
  }
  return out;
}

ScratchText scratch_text(const std::vector<ScratchPart>& parts) {
  Printer printer;
  for (const ScratchPart& part : parts) printer.print(part);
  return std::move(printer.text);
}

}  // namespace rooftile::codegen
