"""Where quotients and roots start from on an NVIDIA GPU: two approximations that it has at once;
and the word of a number that is not missing."""

from collections.abc import Mapping

from quantdsl.codegen.emit import Body
from quantdsl.codegen.function import Shared, Signature
from quantdsl.passes.short import INVERSE, INVERSE_ROOT, WORD

# Of the upper half of a number. The assembler sets the last bit of an inverse, and so does this.
INVERSE_TEXT = """\
declare double @llvm.nvvm.rcp.approx.ftz.d(double)
define internal double @{symbol}(double %x) alwaysinline {{
  %near = call double @llvm.nvvm.rcp.approx.ftz.d(double %x)
  %bits = bitcast double %near to i64
  %odd = or i64 %bits, 1
  %inverse = bitcast i64 %odd to double
  ret double %inverse
}}"""
INVERSE_ROOT_TEXT = """\
declare double @llvm.nvvm.rsqrt.approx.ftz.d(double)
define internal double @{symbol}(double %x) alwaysinline {{
  %near = call double @llvm.nvvm.rsqrt.approx.ftz.d(double %x)
  ret double %near
}}"""
WORD_TEXT = """\
define internal i64 @{symbol}(double %x) alwaysinline {{
  %bits = bitcast double %x to i64
  ret i64 %bits
}}"""


def _written(text: str) -> Body:
    def body(_: Shared, signature: Signature) -> str:
        return text.format(symbol=signature.symbol)

    return body


SHORT_BODIES: Mapping[str, Body] = {
    INVERSE: _written(INVERSE_TEXT),
    INVERSE_ROOT: _written(INVERSE_ROOT_TEXT),
    WORD: _written(WORD_TEXT),
}
