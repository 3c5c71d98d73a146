// SPDX-License-Identifier: Apache-2.0
// write_ops_header FILE: writes the typed C++ interface of all operators; run by the build. The
// file is left alone when it would not change, so that nothing is rebuilt for nothing.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "rooftile/compile/ops_header.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_ops_header FILE\n");
    return 2;
  }
  const std::string text = rooftile::ops_header(rooftile::all_ops());
  std::ifstream old(argv[1], std::ios::binary);
  if (old && std::string(std::istreambuf_iterator<char>(old), {}) == text) return 0;
  std::ofstream out(argv[1], std::ios::binary);
  out << text;
  out.flush();
  if (out) return 0;
  std::fprintf(stderr, "write_ops_header: cannot write %s\n", argv[1]);
  return 1;
}
