// SPDX-License-Identifier: Apache-2.0
// The question whether 16-bit products work, and the child process that asks it.
#include "spectralclip/torch/sixteen_bit.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

namespace spectralclip::torch {
namespace {

TEST(SixteenBit, WhatEndsTheChildIsNamedAndDoesNotEndUs) {
  EXPECT_EQ(failure_in_child([] {}), "");
  EXPECT_EQ(failure_in_child([] { ::raise(SIGILL); }), "SIGILL");
  EXPECT_EQ(failure_in_child([] { ::raise(SIGSEGV); }), "SIGSEGV");
  EXPECT_EQ(failure_in_child([] { ::_exit(7); }), "exit code 7");
  EXPECT_EQ(failure_in_child([] { throw std::runtime_error("could not create a primitive\nframe #0"); }),
            "could not create a primitive");
  EXPECT_EQ(failure_in_child([] { ::pause(); }, std::chrono::milliseconds(50)), "no answer in 50 ms");
}

TEST(SixteenBit, AChildOfAProcessWhoseThreadsAreAtWorkAnswers) {
  const int before = at::get_num_threads();
  at::set_num_threads(4);
  const at::Tensor A = at::ones({512, 512});
  EXPECT_EQ(at::mm(A, A)[0][0].item<float>(), 512.0F);  // the pool is there now
  EXPECT_EQ(failure_in_child([&] { (void)at::mm(A, A); }), "");
  EXPECT_EQ(at::get_num_threads(), 4);
  at::set_num_threads(before);
}

TEST(SixteenBit, TheAnswerIsTheTruth) {
  if (!sixteen_bit_failure().empty()) GTEST_SKIP() << sixteen_bit_failure();
  const at::Tensor A = at::ones({64, 64}, at::kBFloat16);
  EXPECT_EQ(at::mm(A, A)[3][5].item<float>(), 64.0F);
}

}  // namespace
}  // namespace spectralclip::torch
