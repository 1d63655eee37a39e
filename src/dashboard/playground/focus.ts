/** Where the focus goes when what had it is gone. */

/** After it is drawn. */
export const focusSoon = (selector: string): void =>
  void requestAnimationFrame(() => document.querySelector<HTMLElement>(selector)?.focus())

export const backToEdit = (id: number): void => focusSoon(`[data-edit="${id}"]`)

/** Where one goes on; with a finger not into its field, which would bring up a keyboard. */
export const toComposer = (): void =>
  focusSoon(matchMedia('(pointer: coarse)').matches ? '.composer' : '.composer textarea')
