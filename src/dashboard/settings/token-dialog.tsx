/** One token, and taking it back. */
import { Id } from '../ui/copy.tsx'
import { Fact, TimeFact } from '../ui/facts.tsx'
import { When } from '../ui/figure.tsx'
import { Form, useForm } from '../ui/form.tsx'
import { tell } from '../ui/notice.tsx'
import { Overlay } from '../ui/overlay.tsx'
import { revokeToken, type Token } from './data.ts'
import { SCOPE_WORDS, TokenState } from './tokens-page.tsx'

export function TokenDialog({ of: token, onClose }: { of: Token; onClose(): void }) {
  const form = useForm({}, async () => {
    await revokeToken(token.id)
    tell(`${token.name} is revoked.`)
    onClose()
  })
  return (
    <Overlay title={`Token ${token.name}`} onClose={onClose}>
      <p class="drawer-line">
        <TokenState of={token} />
        <span class="dim">id</span> <Id id={token.id} />
      </p>
      <dl class="facts">
        <Fact name="May">{SCOPE_WORDS[token.scope]}</Fact>
        <Fact name="Secret">
          <code>{token.token}</code>
        </Fact>
        <Fact name="Ends">{token.expires_ms === null ? 'never' : <When ms={token.expires_ms} />}</Fact>
        <TimeFact name="Made" ms={token.created_ms} />
        <TimeFact name="Revoked" ms={token.revoked_ms} />
      </dl>
      {token.revoked_ms === null && (
        <Form of={form} submit="Revoke it for good" kind="bad">
          <p class="dim">Scripts that use it are refused from the next moment on. What they did stays on record.</p>
        </Form>
      )}
    </Overlay>
  )
}
