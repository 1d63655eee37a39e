/** Sign-in by password, passkey, identity provider, or code, and the setup of the first owner. Afterwards the requested page opens. */
import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { address, discardPage, open, toHref } from '../address/address.ts'
import { hasPasskeys, prepare, usePasskey } from '../api/authenticator.ts'
import { api, ask } from '../api/client.ts'
import type { Refusal } from '../api/refusal.ts'
import { resume } from '../api/resume.ts'
import { hasEnded, session, takesPasskeys, ways } from '../api/session.ts'
import { PASSWORD_HINT } from '../people/words.ts'
import { Button, ButtonLink, CopyButton, Mark } from '../ui/controls.tsx'
import { Form, type FormState, TextField, useForm } from '../ui/form.tsx'
import { Overlay, Problem } from '../ui/notice.tsx'

const PATHS = { setup: '/setup', code: '/code' }
const isAuthPage = () => Object.values(PATHS).includes(address.value.path)

type Invited = Record<'code' | 'name', string>

/** A link may have both, or the code alone, after the `#`, which browsers don't send. */
function takeLink(): Invited {
  const hash = location.hash.slice(1)
  if (hash !== '') history.replaceState(history.state, '', location.pathname + location.search)
  const values = new URLSearchParams(hash)
  return { code: values.get('code') ?? hash, name: values.get('name') ?? '' }
}

const toLink = (): Invited => (isAuthPage() ? takeLink() : { code: '', name: '' })

const ofLink = signal(toLink())

/** A link opened in a tab that already shows its page changes only the hash. */
addEventListener('hashchange', () => {
  const found = toLink()
  if (found.code !== '') ofLink.value = found
})

function useLink({ set }: FormState<Invited & { password: string }>): void {
  const { value } = ofLink
  useEffect(() => {
    if (value.code !== '') set({ code: value.code, ...(value.name !== '' && { name: value.name }) })
  }, [value])
}

export function Auth({ problem, retry }: { problem: Refusal | null; retry(): void }) {
  const { value } = session
  if (problem !== null) {
    return (
      <AuthPage title="Tollgate">
        <Problem of={problem} retry={retry} />
      </AuthPage>
    )
  }
  if (value.state !== 'out') return <main class="auth" />
  if (!ways.value.includes('password')) return <ProviderOnly />
  if (!value.isSetUp) return <SetUp />
  return address.value.path === PATHS.code ? <WithCode /> : <SignIn />
}

function AuthPage({ title, children }: { title: string; children: ComponentChildren }) {
  useEffect(() => {
    document.title = `${title} · Tollgate`
  }, [title])
  return (
    <main class="auth">
      <div class="door">
        <p class="brand">
          <Mark />
          Tollgate
        </p>
        <h1>{title}</h1>
        {children}
      </div>
    </main>
  )
}

function leaveAuthPage(): void {
  if (isAuthPage()) open('/', { replace: true })
}

function ProviderLink({ kind = 'plain' }: { kind?: 'main' | 'plain' }) {
  const { path, query } = address.value
  const requested = isAuthPage() ? '/' : path + query
  useEffect(() => keepRequestedPage(requested), [requested])
  return (
    <ButtonLink kind={kind} href={PROVIDER_HREF}>
      Sign in with SSO
    </ButtonLink>
  )
}

const ProviderOnly = () => (
  <AuthPage title="Sign in">
    <ProviderLink kind="main" />
  </AuthPage>
)

/** @param name of the user whose session ended, or ''. */
function WithPassword({ name }: { name: string }) {
  const form = useForm({ name, password: '' }, (values) => signIn(api.session.post(values)))
  return (
    <Form of={form} submit="Sign in" isUnsaved={false}>
      <TextField of={form} name="name" label="Name" autoComplete="username" autoFocus={name === ''} />
      <TextField
        of={form}
        name="password"
        label="Password"
        type="password"
        autoComplete="current-password"
        autoFocus={name !== ''}
      />
    </Form>
  )
}

function SignIn() {
  return (
    <AuthPage title="Sign in">
      <WithPassword name="" />
      {hasPasskeys() && <WithPasskey />}
      {ways.value.includes('oidc') && <ProviderLink />}
      <p class="door-more">
        Invited, or forgot your password? <a href={toHref(PATHS.code)}>Use a code</a>
      </p>
    </AuthPage>
  )
}

/** Shown after the session has ended, over the page, which keeps typed text. */
export function SignInAgain() {
  const { value } = session
  if (value.state !== 'in' || !hasEnded.value) return null
  const { name } = value
  return (
    <Overlay title="Sign in again">
      <div class="again">
        <p>
          Your session has ended. Sign in as <strong>{name}</strong> to continue where you were.
        </p>
        {ways.value.includes('password') && (
          <>
            <WithPassword name={name} />
            {hasPasskeys() && <WithPasskey />}
          </>
        )}
        {ways.value.includes('oidc') && (
          <>
            {/* In this tab, a redirect would lose the page. */}
            <ButtonLink href={PROVIDER_HREF} target="_blank" rel="noopener">
              Sign in with SSO in a new tab
            </ButtonLink>
            <p class="hint">Then return to this tab.</p>
          </>
        )}
        <p class="door-more">
          Not {name}?{' '}
          <Button kind="quiet" onClick={discardPage}>
            Leave this page
          </Button>
        </p>
      </div>
    </Overlay>
  )
}

function WithPasskey() {
  useEffect(() => void prepare().catch(() => {}), [])
  const form = useForm({}, signInWithPasskey)
  return (
    <Form of={form} submit="Sign in with a passkey" kind="plain">
      {null}
    </Form>
  )
}

const NEW_PASSWORD = {
  name: 'password',
  type: 'password',
  autoComplete: 'new-password',
  hint: PASSWORD_HINT,
} as const

function WithCode() {
  const form = useForm({ ...ofLink.value, password: '' }, (values) => signIn(api.code.post(values)))
  useLink(form)
  return (
    <AuthPage title="Use a code">
      <p class="dim">
        Set your password with the code from your invitation, or from <code>tollgate admin reset</code>. It works once.
      </p>
      <Form of={form} submit="Set password" isUnsaved={false}>
        <TextField
          of={form}
          name="name"
          label="Name"
          hint="The name in your invitation."
          autoComplete="username"
          autoFocus={ofLink.value.name === ''}
        />
        <TextField of={form} name="code" label="Code" autoComplete="one-time-code" isCode />
        <TextField of={form} label="New password" {...NEW_PASSWORD} autoFocus={ofLink.value.name !== ''} />
      </Form>
      <p class="door-more">
        <a href={toHref('/')}>Sign in with a password</a>
      </p>
    </AuthPage>
  )
}

function SetUp() {
  const form = useForm({ ...ofLink.value, password: '' }, (values) => signIn(api.setup.post(values)))
  useLink(form)
  const hasLink = ofLink.value.code !== ''
  return (
    <AuthPage title="Set up the dashboard">
      <p class="dim">Create the owner account. You can invite others later.</p>
      <Form of={form} submit="Create account" isUnsaved={false}>
        <TextField
          of={form}
          name="code"
          label="Code"
          isCode
          autoComplete="one-time-code"
          autoFocus={!hasLink}
          hint={
            !hasLink && (
              <>
                Printed when the server starts in a terminal. To get a new one, run <code>tollgate admin code</code> on
                the server. <CopyButton text="tollgate admin code" label="Copy command" />
              </>
            )
          }
        />
        <TextField of={form} name="name" label="Your name" autoComplete="username" autoFocus={hasLink} />
        <TextField of={form} label="Password" {...NEW_PASSWORD} />
      </Form>
      {ways.value.includes('oidc') && <ProviderLink />}
    </AuthPage>
  )
}

export async function loadSession(): Promise<void> {
  const found = await ask(api.session.get())
  ways.value = found.sign_in_methods
  takesPasskeys.value = found.passkeys
  session.value =
    found.name === null
      ? { state: 'out', isSetUp: found.is_set_up }
      : { state: 'in', name: found.name, role: found.role, hasPassword: found.has_password }
  if (found.name !== null) openRequestedPage()
}

/** Redirects to the identity provider. */
const PROVIDER_HREF = '/admin/api/oidc'
const REQUESTED_PAGE = 'tollgate-requested'

/** The identity provider sends the browser back to the first page, not to the requested one. */
function keepRequestedPage(requested: string): void {
  sessionStorage.setItem(REQUESTED_PAGE, requested)
}

function openRequestedPage(): void {
  const requested = sessionStorage.getItem(REQUESTED_PAGE)
  sessionStorage.removeItem(REQUESTED_PAGE)
  if (requested !== null && address.value.path === '/') open(requested, { replace: true })
}

/** @throws a Refusal. */
async function signIn(asked: Parameters<typeof ask>[0]): Promise<void> {
  await ask(asked)
  if (hasEnded.value) return resume()
  await loadSession()
  leaveAuthPage()
}

/** Needs no name: the passkey identifies the user. */
async function signInWithPasskey(): Promise<void> {
  const { options } = await ask(api.session.passkey.options.post())
  const response = await usePasskey(options)
  await signIn(api.session.passkey.post({ response }))
}

export async function signOut(): Promise<void> {
  await ask(api.session.delete())
  session.value = { state: 'out', isSetUp: true }
}
