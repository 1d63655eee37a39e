/** Sign-in to the built executable through a third-party provider, over real sockets. */
import { expect, test } from 'bun:test'
import { createWorkplace } from '../support/binary.ts'
import { findFreePort } from '../support/free-port.ts'
import { forEachTest } from '../support/lifetime.ts'
import { signInThere, startOidcProvider } from '../support/oidc-provider.ts'

const work = forEachTest(createWorkplace)

const CLIENT = { clientId: 'tollgate', clientSecret: 'a secret of ours' }

async function start(...args: string[]) {
  const port = await findFreePort()
  const here = `http://127.0.0.1:${port}`
  const provider = await startOidcProvider({
    ...CLIENT,
    redirectUri: `${here}/admin/api/oidc/callback`,
    people: {
      ann: { email: 'ann@example.com', email_verified: true, groups: ['everybody', 'admins'] },
      bo: { preferred_username: 'bo', groups: ['everybody'] },
    },
  })
  const options = ['--port', `${port}`, '--oidc-issuer', provider.issuer, '--oidc-client-id', CLIENT.clientId]
  const roles = ['--oidc-role', 'admins=owner', '--oidc-role', 'dev=editor']
  const environment = { TOLLGATE_OIDC_CLIENT_SECRET: CLIENT.clientSecret }
  const server = await work.serve([...options, ...roles, ...args], { environment })
  return { server, provider, here }
}

/** As a browser does; returns our last response and the session's cookie. */
async function signIn(here: string, issuer: string, name: string) {
  const begun = await fetch(`${here}/admin/api/oidc`, { redirect: 'manual' })
  const cookie = begun.headers.get('set-cookie')?.split(';')[0] ?? ''
  const back = await signInThere(begun.headers.get('location') ?? '', name, issuer)
  const answer = await fetch(back, { redirect: 'manual', headers: { cookie, accept: 'text/html' } })
  return { answer, cookie: answer.headers.getSetCookie()[0]?.split(';')[0] ?? '' }
}

test("a user whose group has a role signs in, one without can't, and no password works if passwords are off", async () => {
  const { server, provider, here } = await start('--password-sign-in', 'off')
  const { answer, cookie } = await signIn(here, provider.issuer, 'ann')
  expect([answer.status, answer.headers.get('location')]).toEqual([303, '/admin'])
  const session = await fetch(`${here}/admin/api/session`, { headers: { cookie } })
  expect(await session.json()).toEqual({
    name: 'ann@example.com',
    role: 'owner',
    is_set_up: true,
    has_password: false,
    sign_in_methods: ['oidc'],
    passkeys: false,
  })

  const refused = await signIn(here, provider.issuer, 'bo')
  expect([refused.answer.status, await refused.answer.text()]).toEqual([403, expect.stringContaining('no role here')])
  const typed = await fetch(`${here}/admin/api/session`, {
    method: 'POST',
    headers: { origin: here, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'ann@example.com', password: 'anything at all' }),
  })
  expect(await typed.json()).toMatchObject({ error: { kind: 'password_off' } })
  const code = await work.run('admin', 'code')
  expect([code.code, code.stderr]).toEqual([1, expect.stringContaining('--password-sign-in on')])
  expect(server.stderr()).not.toContain(CLIENT.clientSecret)
  provider.stop()
})

test('a server starts while its provider is unreachable, and says so at sign-in', async () => {
  const { provider, here } = await start()
  provider.stop()
  const { status, headers } = await fetch(`${here}/admin/api/oidc`, { headers: { accept: 'text/html' } })
  expect([status, headers.get('content-type')]).toEqual([503, 'text/html; charset=utf-8'])
})

test.each([
  [['--oidc-issuer', 'https://login.example.com'], '--oidc-client-id is required'],
  [['--password-sign-in', 'off'], 'no one could sign in'],
])('does not start with %p alone, and says what is missing', async (args, message) => {
  expect(await work.run('serve', '--port', '0', ...args)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining(message),
  })
})
