/** Whether a name can be told from others by looking at it. Pure. */

/** Controls, what only joins or turns what is around it, and what shows nothing (Unicode: Cc, Cf, Cs, Zl, Zp, Default_Ignorable_Code_Point). */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/u

/** Some of those are parts of pictures. */
const EMOJI = /\p{RGI_Emoji}/gv

/** Letters that look alike in two scripts are not told apart. */
export const isVisible = (text: string): boolean => !INVISIBLE.test(text.replaceAll(EMOJI, ''))
