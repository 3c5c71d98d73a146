// SPDX-License-Identifier: Apache-2.0
// A kernel's certificate: what was proved of which code, under which contract, by what, and what
// was waived. One JSON file a kernel. check_certificate.h validates it without the provers.
#pragma once

#include <string>

#include "rooftile/base/diag.h"
#include "rooftile/compile/kernel.h"
#include "rooftile/verify/proof.h"

namespace rooftile::verify {

inline constexpr int kCertificateFormat = 1;

// `request`: how the kernel is asked for again ("M=16 N=32 dtype=bf16"), as in a case list.
std::string certificate_text(const KernelProof& proof, const KernelSource& source,
                             const std::string& request);

// Writes DIR/<op>/<name>.json, aside and renamed. RT-M001.
Status write_certificate(const std::string& dir, const KernelProof& proof,
                         const KernelSource& source, const std::string& request);

}  // namespace rooftile::verify
