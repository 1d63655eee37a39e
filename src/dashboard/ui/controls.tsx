/** Buttons, links that look like buttons, icons, and copyable text. */
import type { ButtonHTMLAttributes, ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { announce, tell } from './notice.tsx'

interface Looks {
  /** `main`: the primary action; `bad`: a destructive one. */
  kind?: 'main' | 'plain' | 'bad' | 'quiet'
  icon?: IconName
  children: ComponentChildren
}

type ButtonProps = Looks & Omit<ButtonHTMLAttributes<HTMLButtonElement>, 'icon' | 'children'>

/** With `aria-disabled` it keeps the focus, but does nothing. */
export const Button = ({ kind = 'plain', icon, children, type = 'button', onClick, ...others }: ButtonProps) => (
  <button
    {...{ type, class: `button ${kind}`, onClick: others['aria-disabled'] === true ? undefined : onClick }}
    {...others}
  >
    {icon && <Icon name={icon} />}
    {children}
  </button>
)

interface LinkProps extends Looks {
  href: string
  target?: '_blank'
  rel?: 'noopener'
  /** A text names the file. */
  download?: boolean | string
  /** True if the shortcut `n` clicks it. */
  'data-new'?: boolean
}

export const ButtonLink = ({ kind = 'plain', icon, children, ...others }: LinkProps) => (
  <a class={`button ${kind}`} {...others}>
    {icon && <Icon name={icon} />}
    {children}
  </a>
)

export const IconButton = ({
  icon,
  label,
  ...others
}: { icon: IconName; label: string } & Omit<ButtonHTMLAttributes<HTMLButtonElement>, 'icon' | 'label'>) => (
  <button type="button" class="icon-button" aria-label={label} title={label} {...others}>
    <Icon name={icon} />
  </button>
)

const PATHS = {
  overview: 'M3 16h14M5.5 16V9.5M10 16V4M14.5 16v-4.5',
  start: 'M4 10.5l3.5 3.5L16 5.5',
  keys: 'M12.5 7.5m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0M10 10l-6 6M4 16h2.5v-2H8',
  teams:
    'M7.5 7m-2.5 0a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0M3 16c0-3 2-4.5 4.5-4.5S12 13 12 16M13 5a2.5 2.5 0 0 1 0 4.6M14 11.8c2 .5 3 2 3 4.2',
  models: 'M10 3l6.5 3.5v7L10 17l-6.5-3.5v-7zM3.5 6.5L10 10l6.5-3.5M10 10v7',
  upstreams: 'M4 4.5h12v4H4zM4 11.5h12v4H4zM7 6.5h.01M7 13.5h.01',
  requests: 'M3 6h14M3 10h14M3 14h9',
  playground: 'M3.5 4.5h13v9H9l-3.5 3v-3h-2z',
  people: 'M10 7m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0M4 17c.3-3.5 2.5-5 6-5s5.7 1.5 6 5',
  settings: 'M3 6h7M14 6h3M12 6m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0M3 14h3M10 14h7M8 14m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0',
  audit: 'M10 10m-7 0a7 7 0 1 0 14 0a7 7 0 1 0-14 0M10 6v4l2.5 2',
  more: 'M5 10h.01M10 10h.01M15 10h.01',
  search: 'M9 9m-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0M13 13l4 4',
  plus: 'M10 4v12M4 10h12',
  close: 'M5 5l10 10M15 5L5 15',
  copy: 'M7.5 7.5h8v8h-8zM12.5 7.5v-3h-8v8h3',
  check: 'M4 10.5l4 4L16 6',
  up: 'M10 16V4M5 9l5-5 5 5',
  down: 'M10 4v12M5 11l5 5 5-5',
  right: 'M8 5l5 5-5 5',
  light:
    'M10 10m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0M10 2v2M10 16v2M2 10h2M16 10h2M4.5 4.5l1.3 1.3M14.2 14.2l1.3 1.3M4.5 15.5l1.3-1.3M14.2 5.8l1.3-1.3',
  dark: 'M16 11.5A6.5 6.5 0 0 1 8.5 4a6.5 6.5 0 1 0 7.5 7.5z',
  auto: 'M10 10m-6.5 0a6.5 6.5 0 1 0 13 0a6.5 6.5 0 1 0-13 0M10 3.5v13M10 6h4M10 9h6M10 12h6M10 15h3',
  help: 'M10 10m-7 0a7 7 0 1 0 14 0a7 7 0 1 0-14 0M8 8a2 2 0 1 1 2.8 1.8c-.6.3-.8.7-.8 1.4M10 13.7h.01',
  leave: 'M8 4H4v12h4M8 10h9M13.5 6.5L17 10l-3.5 3.5',
  edit: 'M4 16l1-4L13.5 3.5l3 3L8 15zM11.5 5.5l3 3',
  again: 'M16 10a6 6 0 1 1-2-4.5M14.5 2.5v3.5H11',
  remove: 'M4 6h12M8 6V3.5h4V6M5.5 6l.7 10.5h7.6L14.5 6M8.5 9v5M11.5 9v5',
  picture: 'M3.5 4.5h13v11h-13zM3.5 13l4-4 3.5 3.5 2-2 3.5 3.5M12.5 7.5h.01',
  stop: 'M5.5 5.5h9v9h-9z',
  code: 'M7 6l-4 4 4 4M13 6l4 4-4 4M11.5 4.5l-3 11',
  warning: 'M10 3.5l7.5 13h-15zM10 8v4M10 14.5h.01',
} as const

export type IconName = keyof typeof PATHS

export const Icon = ({ name }: { name: IconName }) => (
  <svg class="icon" viewBox="0 0 20 20" width="20" height="20" aria-hidden="true" focusable="false">
    <path d={PATHS[name]} />
  </svg>
)

const COPIED_MS = 2_000

export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    announce('Copied.')
    return true
  } catch {
    tell("Couldn't copy. Select the text and copy it manually.", 'bad')
    return false
  }
}

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
  /** Name of the copied text, for screen readers. */
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

/** The last eight digits, as in the CLI; a click copies the whole ID. */
export function Id({ id }: { id: string }) {
  const [isCopied, run] = useCopied(id)
  return (
    <button type="button" class="id" title={`Copy ${id}`} onClick={run}>
      <span class="unseen">Copy ID </span>
      {isCopied ? 'copied' : id.slice(-8)}
    </button>
  )
}

export function Copyable({ text }: { text: string }) {
  const [isCopied, run] = useCopied(text)
  return (
    <button type="button" class="copyable" title="Copy" aria-label={`Copy ${text}`} onClick={run}>
      <code>{text}</code>
      <Icon name={isCopied ? 'check' : 'copy'} />
    </button>
  )
}

/** Characters; browsers take seconds to lay out much longer text, such as a base64 image. */
const MAX_SHOWN = 50_000

export const Code = ({ text, label }: { text: string; label: string }) => (
  <div class="code">
    {/* biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard */}
    <pre tabIndex={0}>
      <code>{text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN).toWellFormed()}…` : text}</code>
    </pre>
    {text.length > MAX_SHOWN && <p class="hint">Truncated here; Copy takes the full text.</p>}
    <CopyButton text={text} what={label} />
  </div>
)

export const Secret = ({ text, label }: { text: string; label: string }) => (
  <div class="secret">
    {/* biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard */}
    <code tabIndex={0}>{text}</code>
    <CopyButton text={text} label={label} kind="main" />
  </div>
)

export const ShownOnce = () => (
  <p>
    <strong>You won't see it again.</strong> Store it in a password manager; we keep only a hash.
  </p>
)

export const Mark = () => (
  <svg class="logo" viewBox="0 0 24 24" width="24" height="24" aria-hidden="true" focusable="false">
    <path d="M4 21V6l8-3 8 3v15M4 21h16M12 3v7M8 21v-8h8v8" />
  </svg>
)
