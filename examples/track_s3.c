/* The header that `statewise export RUN --to c --out s3.h` writes for a network that tracks symmetric(3). */
#include <stdio.h>

#include "s3.h"

int main(void) {
  s3_state state;
  s3_begin(&state);
  for (int i = 0; i < 4; i++) {
    s3_step(&state, 3);
    printf("%s after %d times %s\n", s3_output_names[s3_answer(&state)], i + 1, s3_symbol_names[3]);
  }
  return 0;
}
