/**
 * What lies above the page until it is closed: a dialog, or a drawer at its side. The browser's own `dialog` keeps the focus in it and closes by
 * Escape; the focus goes back to where it was.
 */
import type { ComponentChildren } from 'preact'
import { useId, useLayoutEffect, useRef } from 'preact/hooks'
import { IconButton } from './button.tsx'

interface OverlayProps {
  title: ComponentChildren
  kind?: 'dialog' | 'drawer'
  /** Takes it off the page. Called when somebody wants it closed. */
  onClose(): void
  children: ComponentChildren
}

export function Overlay({ title, kind = 'dialog', onClose, children }: OverlayProps) {
  const at = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  const isOpen = useRef(true)
  // Of layout, since its end comes while the dialog still stands on the page: later, the focus would go nowhere.
  useLayoutEffect(() => {
    const dialog = at.current
    isOpen.current = true
    dialog?.showModal()
    return () => {
      isOpen.current = false
      dialog?.close()
    }
  }, [])
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes it, and so does its button
    <dialog
      ref={at}
      class={`overlay ${kind}`}
      aria-labelledby={titleId}
      onCancel={(event) => {
        if (event.target !== at.current) return
        event.preventDefault()
        onClose()
      }}
      onClose={(event) => {
        // Some browsers close it whatever is said, when Escape is pressed twice.
        if (event.target === at.current && isOpen.current) onClose()
      }}
      onClick={(event) => {
        if (event.target === at.current) onClose()
      }}
    >
      <div class="overlay-inside">
        <header class="overlay-head">
          <h2 id={titleId}>{title}</h2>
          <IconButton icon="close" label="Close" onClick={onClose} />
        </header>
        {children}
      </div>
    </dialog>
  )
}
