/**
 * The way in: with a password or a passkey; through an identity provider; with a code, for those who were invited; and for the first owner, with
 * the code that the server prints. Whatever page was asked for is there once somebody has signed in.
 */
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { address, open, toHref } from '../address/address.ts'
import { hasPasskeys, prepare, usePasskey } from '../api/authenticator.ts'
import { api, ask } from '../api/client.ts'
import type { Refusal } from '../api/refusal.ts'
import { session, takesPasskeys, ways } from '../api/session.ts'
import { ButtonLink, CopyButton, Mark } from '../ui/controls.tsx'
import { Form, TextField, useForm } from '../ui/form.tsx'
import { Problem } from '../ui/notice.tsx'

/** The code may stand in the address, behind the `#`, which a browser sends to nobody. */
function takeCode(): string {
  const code = location.hash.slice(1)
  if (code !== '') history.replaceState(null, '', location.pathname)
  return code
}

const codeOfAddress = takeCode()

const PATHS = { setup: '/setup', code: '/code' }

export function Doors({ problem, retry }: { problem: Refusal | null; retry(): void }) {
  const { value } = session
  if (problem !== null) {
    return (
      <Door title="Tollgate">
        <Problem of={problem} retry={retry} />
      </Door>
    )
  }
  if (value.state !== 'out') return <main class="doors" />
  if (!ways.value.includes('password')) return <ProviderAlone />
  if (!value.isSetUp) return <SetUp />
  return address.value.path === PATHS.code ? <WithCode /> : <SignIn />
}

function Door({ title, children }: { title: string; children: ComponentChildren }) {
  useEffect(() => {
    document.title = `${title} · Tollgate`
  }, [title])
  return (
    <main class="doors">
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

const isDoor = () => Object.values(PATHS).includes(address.value.path)

/** To the page that was asked for, which is none of these. */
function leaveDoor(): void {
  if (isDoor()) open('/', { replace: true })
}

/** To another site, which sends the browser back. */
function ProviderLink({ kind = 'plain' }: { kind?: 'main' | 'plain' }) {
  const { path, query } = address.value
  const wished = isDoor() ? '/' : path + query
  useEffect(() => keepWished(wished), [wished])
  return (
    <ButtonLink kind={kind} href={PROVIDER_HREF}>
      Sign in with your identity provider
    </ButtonLink>
  )
}

const ProviderAlone = () => (
  <Door title="Sign in">
    <ProviderLink kind="main" />
  </Door>
)

function SignIn() {
  const form = useForm({ name: '', password: '' }, (values) => comeIn(api.session.post(values)))
  return (
    <Door title="Sign in">
      <Form of={form} submit="Sign in">
        <TextField of={form} name="name" label="Name" autoComplete="username" autoFocus />
        <TextField of={form} name="password" label="Password" type="password" autoComplete="current-password" />
      </Form>
      {hasPasskeys() && <WithPasskey />}
      {ways.value.includes('oidc') && <ProviderLink />}
      <p class="door-more">
        Invited, or lost your password? <a href={toHref(PATHS.code)}>Use a code</a>
      </p>
    </Door>
  )
}

function WithPasskey() {
  useEffect(() => void prepare().catch(() => {}), [])
  const form = useForm({}, signInByPasskey)
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
  hint: 'At least 12 characters. A few words that belong to nobody are good.',
} as const

function WithCode() {
  const form = useForm({ name: '', code: codeOfAddress, password: '' }, (values) => comeIn(api.code.post(values)))
  return (
    <Door title="Use a code">
      <p class="dim">
        An owner has invited you, or has given you a new code with <code>tollgate admin reset</code>. It sets your
        password, once.
      </p>
      <Form of={form} submit="Set the password">
        <TextField
          of={form}
          name="name"
          label="Name"
          hint="As the owner has called you."
          autoComplete="username"
          autoFocus
        />
        <TextField of={form} name="code" label="Code" autoComplete="one-time-code" isCode />
        <TextField of={form} label="New password" {...NEW_PASSWORD} />
      </Form>
      <p class="door-more">
        <a href={toHref('/')}>Sign in with a password</a>
      </p>
    </Door>
  )
}

function SetUp() {
  const form = useForm({ code: codeOfAddress, name: '', password: '' }, (values) => comeIn(api.setup.post(values)))
  return (
    <Door title="Set up the dashboard">
      <p class="dim">You are the first here: you will be its owner, and can invite others later.</p>
      <Form of={form} submit="Set it up">
        <TextField
          of={form}
          name="code"
          label="Code"
          isCode
          autoComplete="one-time-code"
          autoFocus={codeOfAddress === ''}
          hint={
            codeOfAddress === '' && (
              <>
                The server printed it when it was started on a terminal. For another, run{' '}
                <code>tollgate admin code</code> on its machine.{' '}
                <CopyButton text="tollgate admin code" label="Copy the command" />
              </>
            )
          }
        />
        <TextField of={form} name="name" label="Your name" autoComplete="username" autoFocus={codeOfAddress !== ''} />
        <TextField of={form} label="Password" {...NEW_PASSWORD} />
      </Form>
      {ways.value.includes('oidc') && <ProviderLink />}
    </Door>
  )
}

/** Finds out who has signed in. */
export async function loadSession(): Promise<void> {
  const found = await ask(api.session.get())
  ways.value = found.sign_in_methods
  takesPasskeys.value = found.passkeys
  session.value =
    found.name === null
      ? { state: 'out', isSetUp: found.is_set_up }
      : { state: 'in', name: found.name, role: found.role, hasPassword: found.has_password }
  if (found.name !== null) openWished()
}

/** Where an identity provider is set up, a browser goes there. */
const PROVIDER_HREF = '/admin/api/oidc'
const WISHED = 'tollgate-wished'

/** Keeps which page was asked for, for when the browser comes back from an identity provider, to the first one. */
function keepWished(wished: string): void {
  sessionStorage.setItem(WISHED, wished)
}

function openWished(): void {
  const wished = sessionStorage.getItem(WISHED)
  sessionStorage.removeItem(WISHED)
  if (wished !== null && address.value.path === '/') open(wished, { replace: true })
}

/** Comes in by one of the ways that the API has. Throws a Refusal. */
async function comeIn(asked: Parameters<typeof ask>[0]): Promise<void> {
  await ask(asked)
  await loadSession()
  leaveDoor()
}

/** By a passkey that the browser finds: it knows whose it is. */
async function signInByPasskey(): Promise<void> {
  const { options } = await ask(api.session.passkey.options.post())
  const response = await usePasskey(options)
  await comeIn(api.session.passkey.post({ response }))
}

export async function signOut(): Promise<void> {
  await ask(api.session.delete())
  session.value = { state: 'out', isSetUp: true }
}
