// SPDX-License-Identifier: Apache-2.0
// SIGINT, SIGTERM and SIGCHLD as something to wait for. While a SignalWatch lives the first two do not end the process:
// they are counted. For one thread; watches may nest, the outermost installs and removes the handlers.
#pragma once

namespace spectralclip::lab {

class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // Sleeps until one of the signals arrives, at most so long. A signal that arrived since the last wait ends it at
  // once.
  void wait(double seconds);
  // SIGINT and SIGTERM since the outermost watch began.
  [[nodiscard]] int interruptions() const noexcept;
};

}  // namespace spectralclip::lab
