// Wheels that are built on a younger system than manylinux_2_28: what its libraries lack, and functions by the versions
// that it knows. CMakeLists.txt lets the linker send calls of `log` to `__wrap_log`, and so on.
#include <exception>
#include <new>

#define GLASSWOOD_HIDDEN __attribute__((visibility("hidden")))
#ifdef __x86_64__
#define GLASSWOOD_OLDEST "@GLIBC_2.2.5"
#else
#define GLASSWOOD_OLDEST "@GLIBC_2.17"
#endif

__asm__(".symver glasswood_log, log" GLASSWOOD_OLDEST);
__asm__(".symver glasswood_pow, pow" GLASSWOOD_OLDEST);
__asm__(".symver glasswood_dlopen, dlopen" GLASSWOOD_OLDEST);
__asm__(".symver glasswood_dlsym, dlsym" GLASSWOOD_OLDEST);

extern "C" {

double glasswood_log(double);
double glasswood_pow(double, double);
void* glasswood_dlopen(const char*, int);
void* glasswood_dlsym(void*, const char*);

GLASSWOOD_HIDDEN double __wrap_log(double x) { return glasswood_log(x); }
GLASSWOOD_HIDDEN double __wrap_pow(double x, double y) { return glasswood_pow(x, y); }
GLASSWOOD_HIDDEN void* __wrap_dlopen(const char* name, int flags) { return glasswood_dlopen(name, flags); }
GLASSWOOD_HIDDEN void* __wrap_dlsym(void* library, const char* name) { return glasswood_dlsym(library, name); }

// Inline code of the C++ library asks whether there is only one thread. The answer here is always no.
GLASSWOOD_HIDDEN char __libc_single_threaded = 0;

// Constructors and destructors that all versions of the C++ library export.
void glasswood_copy_exception(void*, const void*) __asm__("_ZNSt15__exception_ptr13exception_ptrC1ERKS0_");
void glasswood_drop_exception(void*) __asm__("_ZNSt15__exception_ptr13exception_ptrD1Ev");

// exception_ptr::_M_addref and _M_release, which later inline code calls.
GLASSWOOD_HIDDEN void glasswood_addref(void* exception) __asm__("_ZNSt15__exception_ptr13exception_ptr9_M_addrefEv");
GLASSWOOD_HIDDEN void glasswood_release(void* exception) __asm__("_ZNSt15__exception_ptr13exception_ptr10_M_releaseEv");

void glasswood_addref(void* exception) {
  void* copy;  // never dropped: what is left is one more owner
  glasswood_copy_exception(&copy, exception);
}

void glasswood_release(void* exception) {
  glasswood_drop_exception(exception);
  *static_cast<void**>(exception) = nullptr;
}
}

namespace std {

GLASSWOOD_HIDDEN void __throw_bad_array_new_length() { throw bad_array_new_length(); }

}  // namespace std
