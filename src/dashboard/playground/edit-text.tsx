/** A message of the thread while it is edited. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { Button } from '../ui/button.tsx'
import { isLong } from './long-text.tsx'

interface EditProps {
  text: string
  label: string
  save(text: string): void
  cancel(): void
  /** What Ctrl and Enter do, where there is more to it than to save. */
  also?: { label: string; run(text: string): void }
}

export function EditText({ text, label, save, cancel, also }: EditProps) {
  const [typed, setTyped] = useState(text)
  const at = useRef<HTMLTextAreaElement>(null)
  useEffect(() => at.current?.focus(), [])
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Escape') {
      event.preventDefault()
      cancel()
    }
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return
    event.preventDefault()
    const finish = also?.run ?? save
    finish(typed)
  }
  return (
    <div class="turn-edit">
      <textarea
        ref={at}
        class={isLong(text) ? 'is-long' : 'grows'}
        aria-label={label}
        value={typed}
        rows={3}
        onInput={({ currentTarget: { value } }) => setTyped(value)}
        onKeyDown={onKeyDown}
      />
      <div class="form-foot">
        {also && (
          <Button kind="main" onClick={() => also.run(typed)}>
            {also.label}
          </Button>
        )}
        <Button kind={also ? 'plain' : 'main'} onClick={() => save(typed)}>
          Save
        </Button>
        <Button kind="quiet" onClick={cancel}>
          Cancel
        </Button>
      </div>
    </div>
  )
}
