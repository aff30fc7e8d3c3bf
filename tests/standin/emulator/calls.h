// How a vendor's calls are written: each counts itself and may be told to fail; and what every run-time compiler has.
#pragma once
#include "device.h"
#include <cstring>
using namespace device;
typedef void* P;
typedef unsigned U;
#define API(name, args, ...)                                                                                            \
    extern "C" int name args {                                                                                          \
        std::lock_guard<std::recursive_mutex> guard(lock());                                                            \
        if (int e = enter(#name)) return e;                                                                             \
        __VA_ARGS__                                                                                                     \
    }
// Calls that wait for the device or change its memory at once break a capture.
#define NOT_IN_CAPTURE if (capturing()) return CAPTURE_UNSUPPORTED;

#define RTC(X, ARCHS)                                                                                                   \
    extern "C" int X##CreateProgram(Program** p, const char* source, const char*, int n, const char* const* headers, const char* const* names) { \
        *p = new Program{source, "", {}, {}};                                                                           \
        for (int i = 0; i < n; i++) (*p)->headers.push_back({names[i], headers[i]});                                    \
        return 0;                                                                                                       \
    }                                                                                                                   \
    extern "C" int X##DestroyProgram(Program** p) { delete *p; *p = nullptr; return 0; }                                \
    extern "C" int X##CompileProgram(Program* p, int n, const char* const* options) {                                   \
        { std::lock_guard<std::recursive_mutex> guard(lock()); if (int e = enter(#X "CompileProgram")) return e; }      \
        return compile(*p, std::vector<std::string>(options, options + n), ARCHS) ? 0 : 6;                              \
    }                                                                                                                   \
    extern "C" int X##GetProgramLogSize(Program* p, size_t* n) { *n = p->log.size() + 1; return 0; }                    \
    extern "C" int X##GetProgramLog(Program* p, char* s) { memcpy(s, p->log.c_str(), p->log.size() + 1); return 0; }
#define RTC_IMAGE(X, KIND)                                                                                              \
    extern "C" int X##Get##KIND##Size(Program* p, size_t* n) { *n = p->code.size(); return 0; }                         \
    extern "C" int X##Get##KIND(Program* p, char* s) { memcpy(s, p->code.data(), p->code.size()); return 0; }
