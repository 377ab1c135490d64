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
  -sEXPORTED_FUNCTIONS=_stepsim_answer,_malloc,_free
  -sEXPORTED_RUNTIME_METHODS=FS,stringToUTF8,lengthBytesUTF8,UTF8ToString
  -sENVIRONMENT=web,worker,node -sFORCE_FILESYSTEM -sTOTAL_STACK=1MB
  -sALLOW_MEMORY_GROWTH -sINITIAL_MEMORY=64MB -sMAXIMUM_MEMORY=4GB)

set(page ${PROJECT_SOURCE_DIR}/sim/lab/page)
set(scripts engine state sources hints control_rows controls step_view compare lessons transfer lab)
list(TRANSFORM scripts REPLACE "(.+)" "../../lab/page/\\1.js")
stepsim_page_scripts(STEPSIM_LAB_PROGRAM ${scripts})
foreach(part STYLE PARTS)
  file(WRITE ${PROJECT_BINARY_DIR}/page/${part}.txt "${STEPSIM_PAGE_${part}}")
endforeach()
file(WRITE ${PROJECT_BINARY_DIR}/page/PROGRAM.txt "${STEPSIM_LAB_PROGRAM}")
file(GLOB_RECURSE described CONFIGURE_DEPENDS models/*.json hardware/*.json scenarios/*.json)
find_program(NODE node REQUIRED)
add_custom_command(
  OUTPUT lab.html
  COMMAND ${NODE} ${PROJECT_SOURCE_DIR}/sim/lab/assemble.mjs ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}
  DEPENDS engine sim/lab/assemble.mjs ${page}/lab.html ${page}/lab.css ${page}/worker.js ${described}
          ${PROJECT_BINARY_DIR}/page/PARTS.txt ${PROJECT_BINARY_DIR}/page/STYLE.txt
          ${PROJECT_BINARY_DIR}/page/PROGRAM.txt
  VERBATIM)
add_custom_target(lab ALL DEPENDS lab.html)
