/** Requests as code. */
import type { ComponentChildren } from 'preact'
import { toHref } from '../address/address.ts'
import { Overlay } from '../ui/notice.tsx'
import { CodeTabs } from '../ui/tabs.tsx'

const SECRET = 'YOUR_KEY'
export const toAccess = () => ({ baseUrl: `${location.origin}/v1`, secret: SECRET })

interface CodeProps {
  of: Parameters<typeof CodeTabs>[0]['of']
  onClose(): void
  children?: ComponentChildren
}

export const CodeOverlay = ({ of, onClose, children }: CodeProps) => (
  <Overlay title="Code" onClose={onClose}>
    <div class="form play-code">
      {children}
      <CodeTabs of={of} label="Language" />
      <p class="hint">
        Replace <code>{SECRET}</code> with an API key. <a href={toHref('/keys/new')}>Create key</a>
      </p>
    </div>
  </Overlay>
)
