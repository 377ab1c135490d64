# The lab, build/lab/lab.html: the engine as WebAssembly and the page around it, in one file.
get_target_property(sources stepsim_config SOURCES)
list(FILTER sources EXCLUDE REGEX import_yaml)
set_property(TARGET stepsim_config PROPERTY SOURCES ${sources} ${PROJECT_SOURCE_DIR}/sim/lab/no_yaml.cpp)

# Only reading throws, and a network that does not connect: the other layers go without the cost of unwinding.
foreach(layer base config network simulate)
  target_compile_options(stepsim_${layer} PRIVATE -fexceptions)
endforeach()
add_executable(engine sim/lab/browser.cpp sim/lab/lab.cpp)
target_compile_options(engine PRIVATE -fexceptions)
target_link_libraries(engine PRIVATE stepsim_simulate)
target_link_options(engine PRIVATE -fexceptions -sMODULARIZE -sEXPORT_NAME=stepsimEngine
  -sEXPORTED_FUNCTIONS=_stepsim_answer,_malloc,_free -sEXPORTED_RUNTIME_METHODS=FS,ccall,stringToUTF8,UTF8ToString,lengthBytesUTF8
  -sALLOW_MEMORY_GROWTH -sENVIRONMENT=web,worker,node -sFORCE_FILESYSTEM -sINITIAL_MEMORY=64MB -sMAXIMUM_MEMORY=4GB)
