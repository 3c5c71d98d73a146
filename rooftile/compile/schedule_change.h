// SPDX-License-Identifier: Apache-2.0
// A schedule changed by a line of text, for trying schedules out without building anything:
//
//   BN=176 depth=5 share=turns turns=kk          words of key=value, in any order
//
// A tile parameter's name sets it. The other keys are fields of gpu::Plan:
//   depth=N              slots of the first ring
//   groups=N             of the computing role
//   regs=C/P             of a computing, a copying thread
//   ctas=N               CTAs a multiprocessor
//   grid=cover|persistent
//   cluster=AXIS:N       CTAs along an axis; none
//   multicast=LOAD       shared along that axis
//   split=LOOP:N         over a cluster; none
//   share=rows|turns
//   turns=LOOP[:step]    none
//   unit=wgmma|mma_sync|fma  of all products
//   threads=N            of a CTA, in the strips way
//   held=N               vectors a thread holds, in the strips way
//   swap=0|1             of all products
//   in_flight=N          of all products
//   order=AXIS+AXIS      parallel axes, slowest first; none
//   band=N
//   staging=CxB          columns x buffers of every staged store; 0: from registers
//   evict_first=0|1      of all loads
//   dependent=0|1        launch
#pragma once

#include <string_view>

#include "rooftile/base/diag.h"
#include "rooftile/compile/schedule.h"

namespace rooftile {

// RT-P001 for a word that is none of these. The name gets a suffix of its own.
Status change_schedule(Schedule& schedule, std::string_view words);

}  // namespace rooftile
