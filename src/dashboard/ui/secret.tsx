/** What is shown this once, to be copied and kept. */
import { CopyButton } from './copy.tsx'

export const Secret = ({ text, label }: { text: string; label: string }) => (
  <div class="secret">
    {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
    <code tabIndex={0}>{text}</code>
    <CopyButton text={text} label={label} kind="main" />
  </div>
)

export const ShownOnce = () => (
  <p>
    <strong>Shown once.</strong> Only a hash of it is kept: keep it now, where secrets are kept.
  </p>
)
