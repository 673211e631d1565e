// Fibers for test_fibers.py: prints what is wrong.
#include <cfenv>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "grow/tasks/fibers.h"

using glasswood::Fiber;

static void expect(bool holds, const char* what) {
  if (!holds) std::printf("%s\n", what);
}

// Throws below `depth` frames, some of which yield on the way back.
static int dive(int depth) {
  const std::string held(100, char('a' + depth % 26));  // has to be given back on the way
  if (depth == 0) throw std::runtime_error("from below");
  try {
    return dive(depth - 1) + int(held.size());
  } catch (const std::runtime_error&) {
    if (depth % 10) throw;
  }
  Fiber::current()->yield();
  throw std::runtime_error("from below");
}

static std::string message_of(const Fiber& fiber) {
  try {
    if (fiber.error()) std::rethrow_exception(fiber.error());
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

// Each goes on, on another thread every time, until it is done; returns how often.
static int run_on_other_threads(Fiber& fiber) {
  int n_turns = 0;
  for (; !fiber.is_done(); ++n_turns) std::thread([&] { fiber.resume(); }).join();
  return n_turns;
}

static void test_errors() {
  Fiber fiber;
  fiber.start(nullptr, [] { dive(50); });
  expect(run_on_other_threads(fiber) == 6, "yields among frames that an error leaves");
  expect(message_of(fiber) == "from below", "the error of a fiber");
  expect(Fiber::current() == nullptr, "no fiber outside");
  fiber.start(nullptr, [] {});
  fiber.resume();
  expect(fiber.is_done() && !fiber.error(), "a fiber starts again after an error");
}

static void test_inner_fibers() {
  Fiber outer, inner;
  std::vector<int> order;
  inner.start(nullptr, [&] {
    order.push_back(1);
    Fiber::current()->yield();
    order.push_back(3);
  });
  outer.start(nullptr, [&] {
    order.push_back(0);
    inner.resume();
    expect(Fiber::current() == &outer, "the outer fiber after an inner one");
    order.push_back(2);
    inner.resume();
    order.push_back(4);
  });
  outer.resume();
  expect(order == std::vector<int>({0, 1, 2, 3, 4}), "the order of nested fibers");
}

// Values that the compiler keeps in registers over a switch, and the rounding mode, which belongs to each stack.
static void test_what_is_kept() {
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<double> sums(20, 0);
  for (int i = 0; i < 20; ++i) {
    fibers.push_back(std::make_unique<Fiber>());
    fibers[i]->start(nullptr, [i, &sums] {
      std::fesetround(i % 2 ? FE_UPWARD : FE_TONEAREST);
      double sum = i;
      for (int k = 0; k < 100; ++k) {
        sum += k;
        Fiber::current()->yield();
        expect(std::fegetround() == (i % 2 ? FE_UPWARD : FE_TONEAREST), "the rounding mode of a fiber");
      }
      std::fesetround(FE_TONEAREST);
      sums[i] = sum;
    });
  }
  for (int k = 0; k <= 100; ++k)
    for (auto& fiber : fibers) fiber->resume();
  for (int i = 0; i < 20; ++i) expect(fibers[i]->is_done() && sums[i] == i + 4950.0, "values of a fiber");
  expect(std::fegetround() == FE_TONEAREST, "the rounding mode outside");
}

static void test_vectors() {
  Fiber fiber;
  fiber.start(nullptr, [] {
    alignas(64) volatile double vector[8] = {1};
    expect(reinterpret_cast<uintptr_t>(&vector) % 64 == 0, "the alignment of a stack");
    char text[64];
    std::snprintf(text, sizeof text, "%.3f %s", 1.5 + vector[0], "text");
    expect(std::string(text) == "2.500 text", "variadic calls, whose registers are stored aligned");
  });
  fiber.resume();
}

int main() {
  test_errors();
  test_inner_fibers();
  test_what_is_kept();
  test_vectors();
}
