/** What is there to be copied: an id, a secret, a command. */
import { useState } from 'preact/hooks'
import { Button } from './button.tsx'
import { Icon } from './icon.tsx'
import { announce, tell } from './notice.tsx'

const COPIED_MS = 2_000

export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    announce('Copied.')
    return true
  } catch {
    tell('The browser does not let this page copy: select the text and copy it by hand.', 'bad')
    return false
  }
}

/** Says for a moment that it has. */
function useCopied(text: string): [isCopied: boolean, run: () => void] {
  const [isCopied, setCopied] = useState(false)
  return [
    isCopied,
    async () => {
      if (!(await copy(text))) return
      setCopied(true)
      setTimeout(() => setCopied(false), COPIED_MS)
    },
  ]
}

export function CopyButton({
  text,
  label = 'Copy',
  what,
  kind = 'plain',
}: {
  text: string
  label?: string
  /** What it copies, where the label alone does not say it. */
  what?: string
  kind?: 'main' | 'plain'
}) {
  const [isCopied, run] = useCopied(text)
  return (
    <Button kind={kind} icon={isCopied ? 'check' : 'copy'} onClick={run}>
      {isCopied ? 'Copied' : label}
      {what && <span class="unseen">: {what}</span>}
    </Button>
  )
}

/** An id by its last eight digits, as the command line shows it; a press copies all of it. */
export function Id({ id }: { id: string }) {
  const [isCopied, run] = useCopied(id)
  return (
    <button type="button" class="id" title={`${id}: copy`} onClick={run}>
      <span class="unseen">Copy the id </span>
      {isCopied ? 'copied' : id.slice(-8)}
    </button>
  )
}

/** A name that is typed elsewhere, such as a model's; a press copies it. */
export function Copyable({ text }: { text: string }) {
  const [isCopied, run] = useCopied(text)
  return (
    <button type="button" class="copyable" title="Copy" aria-label={`Copy ${text}`} onClick={run}>
      <code>{text}</code>
      <Icon name={isCopied ? 'check' : 'copy'} />
    </button>
  )
}

/** A browser takes seconds to lay out what is much longer, a picture written as text for one. */
const MOST_SHOWN = 50_000

/** A command or a piece of code, with its button. */
export const Code = ({ text, label }: { text: string; label: string }) => (
  <div class="code">
    {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
    <pre tabIndex={0}>
      <code>{text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN).toWellFormed()} …` : text}</code>
    </pre>
    {text.length > MOST_SHOWN && <p class="hint">This is its beginning. What is copied is all of it.</p>}
    <CopyButton text={text} what={label} />
  </div>
)
