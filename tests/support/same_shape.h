// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <type_traits>

// Compares function pointers of our declarations with those of a library's own header.

template <class A, class B>
constexpr bool kSameSlot = sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>;

// As many parameters, of the same sizes, pointers where there are pointers.
template <class Ours, class Theirs>
constexpr bool kSameShape = false;
template <class R, class... A, class S, class... B>
constexpr bool kSameShape<R (*)(A...), S (*)(B...)> = [] {
  if constexpr (sizeof...(A) == sizeof...(B))
    return kSameSlot<R, S> && (kSameSlot<A, B> && ...);
  else
    return false;
}();

static_assert(!kSameShape<int (*)(int), int (*)(int, int)>);
static_assert(!kSameShape<int (*)(int*), int (*)(long)>);
static_assert(!kSameShape<int (*)(int), int (*)(long)>);
