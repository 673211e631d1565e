// Wheels that are built on a younger system than manylinux_2_28: what its libraries lack, and functions by the versions
// that it knows. CMakeLists.txt lets the linker send calls of `log` to `__wrap_log`, and so on.
#include <exception>
#include <new>

#define SILVA_HIDDEN __attribute__((visibility("hidden")))
#ifdef __x86_64__
#define SILVA_OLDEST "@GLIBC_2.2.5"
#else
#define SILVA_OLDEST "@GLIBC_2.17"
#endif

__asm__(".symver silva_log, log" SILVA_OLDEST);
__asm__(".symver silva_pow, pow" SILVA_OLDEST);
__asm__(".symver silva_dlopen, dlopen" SILVA_OLDEST);
__asm__(".symver silva_dlsym, dlsym" SILVA_OLDEST);

extern "C" {

double silva_log(double);
double silva_pow(double, double);
void* silva_dlopen(const char*, int);
void* silva_dlsym(void*, const char*);

SILVA_HIDDEN double __wrap_log(double x) { return silva_log(x); }
SILVA_HIDDEN double __wrap_pow(double x, double y) { return silva_pow(x, y); }
SILVA_HIDDEN void* __wrap_dlopen(const char* name, int flags) { return silva_dlopen(name, flags); }
SILVA_HIDDEN void* __wrap_dlsym(void* library, const char* name) { return silva_dlsym(library, name); }

// Inline code of the C++ library asks whether there is only one thread. The answer here is always no.
SILVA_HIDDEN char __libc_single_threaded = 0;

// Constructors and destructors that all versions of the C++ library export.
void silva_copy_exception(void*, const void*) __asm__("_ZNSt15__exception_ptr13exception_ptrC1ERKS0_");
void silva_drop_exception(void*) __asm__("_ZNSt15__exception_ptr13exception_ptrD1Ev");

// exception_ptr::_M_addref and _M_release, which later inline code calls.
SILVA_HIDDEN void silva_addref(void* exception) __asm__("_ZNSt15__exception_ptr13exception_ptr9_M_addrefEv");
SILVA_HIDDEN void silva_release(void* exception) __asm__("_ZNSt15__exception_ptr13exception_ptr10_M_releaseEv");

void silva_addref(void* exception) {
  void* copy;  // never dropped: what is left is one more owner
  silva_copy_exception(&copy, exception);
}

void silva_release(void* exception) {
  silva_drop_exception(exception);
  *static_cast<void**>(exception) = nullptr;
}
}

namespace std {

SILVA_HIDDEN void __throw_bad_array_new_length() { throw bad_array_new_length(); }

}  // namespace std
