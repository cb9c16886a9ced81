// Carries the precompiled headers of all test binaries; see CMakeLists.txt.
