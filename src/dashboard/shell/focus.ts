/**
 * Keeps the keyboard's position. If the focused element is removed, its replacement gets the focus: the first field of
 * a form, the main button, or else the first control or the heading. Browsers would focus the document.
 */
const CONTROLS = ':is(input, select, textarea, button, summary, a.button):not([disabled])'

/** Called once. */
export function keepFocus(): void {
  let last: Element | null = null
  let isByPointer = false
  document.addEventListener('focusin', ({ target }) => {
    last = target instanceof Element ? target : null
  })
  // A phone would open its keyboard.
  for (const type of ['pointerdown', 'keydown'] as const)
    document.addEventListener(type, () => {
      isByPointer = type === 'pointerdown'
    })
  new MutationObserver((records) => {
    if (last === null || last.isConnected) return
    last = null
    if (isByPointer) return
    const added = records.flatMap((record) => [...record.addedNodes])
    // After pages, forms, and drawers have set the focus.
    requestAnimationFrame(() => setTimeout(() => isLost() && takeFocus(added)))
  }).observe(document.body, { childList: true, subtree: true })
}

const isLost = () => document.activeElement === null || document.activeElement === document.body

function takeFocus(added: readonly Node[]): void {
  const room = [...document.querySelectorAll('dialog[open]')].at(-1) ?? document.querySelector('main')
  const controls = [...(room?.querySelectorAll<HTMLElement>(CONTROLS) ?? [])].filter(
    (one) => one.checkVisibility() && added.some((node) => node.contains(one)),
  )
  const control = controls.find((one) => one.matches('.main, form *')) ?? controls[0]
  control?.focus()
  if (control) return
  const heading = room?.querySelector<HTMLElement>('h1, h2')
  // Not earlier, or a dialog would open with the focus on its heading.
  heading?.setAttribute('tabindex', '-1')
  heading?.focus({ preventScroll: true })
}
