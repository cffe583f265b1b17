# Read through $CMAKE_TOOLCHAIN_FILE (CMake 3.21 or newer), and again right after Horovod's own project() command.
# Horovod 0.28.1 asks for C++14 by name, which torch's headers refuse; this makes "14" mean 17.
set(CMAKE_PROJECT_horovod_INCLUDE "${CMAKE_CURRENT_LIST_FILE}")
set(CMAKE_CXX14_STANDARD_COMPILE_OPTION "-std=c++17")
# Without debug information the build takes a quarter less time
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
