// SPDX-License-Identifier: Apache-2.0
// The page's style sheet. Colours are named once; the dark scheme and print replace the names'
// values only. The four family colours were chosen to differ in lightness as well as hue.
#pragma once

namespace rooftile::report {

inline constexpr const char* kStyleSheet = R"css(
:root {
  color-scheme: light dark;
  --paper: #fbfbfa; --card: #ffffff; --ink: #1c2024; --soft: #60666d; --line: #e3e4e1; --faint: #f1f2ef;
  --product: #2a6fbb; --attention: #c4572b; --rows: #2f8f5b; --movement: #8a6bb0;
  --good: #2f8f5b; --bad: #b3261e; --roof: #1c2024; --halo: #ffffff;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #15181b; --card: #1c2024; --ink: #e8e9e7; --soft: #9aa1a8; --line: #31363b; --faint: #23282c;
    --product: #6ba7e8; --attention: #ef8a5f; --rows: #62c48d; --movement: #b79ad9;
    --good: #62c48d; --bad: #ff8a80; --roof: #e8e9e7; --halo: #1c2024;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, -apple-system,
  "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; font-variant-numeric: tabular-nums; }
main { max-width: 1360px; margin: 0 auto; padding: 40px 24px 64px; }
h1 { font-size: 30px; line-height: 1.15; letter-spacing: -0.015em; margin: 0 0 6px; }
h2 { font-size: 21px; letter-spacing: -0.01em; margin: 52px 0 14px; padding-top: 20px; border-top: 1px solid var(--line); }
h3 { font-size: 15px; margin: 30px 0 8px; }
p { margin: 6px 0; max-width: 76ch; }
.sub, figcaption, .note { color: var(--soft); }
figcaption, .note { font-size: 13px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(158px, 1fr)); gap: 12px; margin: 18px 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 12px 16px; }
.tile b { display: block; white-space: nowrap; font-size: 19px; font-weight: 600; letter-spacing: -0.01em; }
.tile span { color: var(--soft); font-size: 12.5px; }
figure { margin: 14px 0; background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px; }
svg { display: block; width: 100%; height: auto; }
.key { display: flex; flex-wrap: wrap; gap: 4px 18px; margin-bottom: 8px; font-size: 13px; color: var(--soft); }
.key i { display: inline-block; width: 10px; height: 10px; border-radius: 50%; margin-right: 6px; }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: 12px; vertical-align: bottom; }
th, td { padding: 7px 8px; border-bottom: 1px solid var(--line); }
td { vertical-align: top; }
tbody tr:last-child td { border-bottom: 0; }
tfoot td { border-top: 2px solid var(--line); border-bottom: 0; font-weight: 600; }
.n { text-align: right; white-space: nowrap; }
td small { display: block; color: var(--soft); font-size: 11.5px; }
td.shape { min-width: 124px; }
td.check small { white-space: normal; min-width: 84px; }
td.op { white-space: nowrap; font-weight: 600; }
td.op small { font-weight: 400; }
.meter { display: inline-block; width: 40px; height: 7px; border-radius: 4px; background: var(--faint); overflow: hidden;
  vertical-align: 1px; margin-right: 7px; }
.meter i { display: block; height: 100%; background: currentColor; }
.good { color: var(--good); } .bad { color: var(--bad); font-weight: 600; }
td.failure { white-space: pre-line; font-weight: 400; font-size: 12px; }
.c-product { color: var(--product); } .c-attention { color: var(--attention); }
.c-rows { color: var(--rows); } .c-movement { color: var(--movement); }
.b-product { background: var(--product); } .b-attention { background: var(--attention); }
.b-rows { background: var(--rows); } .b-movement { background: var(--movement); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 3px 18px; font-size: 13px; margin: 10px 0; }
dt { color: var(--soft); } dd { margin: 0; }
svg text { font-family: inherit; fill: var(--ink); }
svg .frame { fill: none; stroke: var(--line); }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg .tick { font-size: 11.5px; fill: var(--soft); }
svg .axis { font-size: 12.5px; fill: var(--soft); }
svg .roof { stroke: var(--roof); stroke-width: 1.6; }
svg .roof.copy { stroke-dasharray: 5 4; stroke-width: 1; }
svg .ceiling { font-size: 11.5px; fill: var(--soft); }
svg .gap { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 1.5 3; }
svg .leader { stroke: var(--soft); stroke-width: 0.8; }
svg .label { font-size: 11.5px; font-weight: 600; paint-order: stroke; stroke: var(--halo); stroke-width: 3px; }
svg .point { stroke: var(--halo); stroke-width: 1.2; fill-opacity: 0.82; }
svg .slice { stroke: var(--card); stroke-width: 1.5; }
svg .slice-label { font-size: 11.5px; font-weight: 600; fill: var(--card); }
svg .product { fill: var(--product); } svg .attention { fill: var(--attention); }
svg .rows { fill: var(--rows); } svg .movement { fill: var(--movement); }
@page { size: A4 landscape; margin: 12mm; }
@media print {
  :root { color-scheme: light; --paper: #fff; --card: #fff; --ink: #000; --soft: #444; --line: #ccc; --faint: #eee;
    --product: #2a6fbb; --attention: #c4572b; --rows: #2f8f5b; --movement: #8a6bb0; --roof: #000; --halo: #fff; }
  body { font-size: 11px; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  main { max-width: none; padding: 0; }
  h2 { break-before: page; border: 0; padding: 0; margin-top: 0; }
  figure, tr { break-inside: avoid; }
  .scroll { overflow: visible; }
  table { font-size: 9px; } td, th { padding: 3px 5px; } td small { font-size: 8px; }
}
)css";

}  // namespace rooftile::report
