/** Sign-in through an identity provider on another site, with its own pages. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type Browsing, expectAccessible, hasNoBrowser, startBrowsing, type Visit } from '../../browser/browsing.ts'
import { findFreePort } from '../../support/free-port.ts'
import { startOidcProvider } from '../../support/oidc-provider.ts'

const CLIENT = { clientId: 'tollgate', clientSecret: 'a secret of ours' }
const DOOR = 'Sign in with SSO'

describe.skipIf(hasNoBrowser)('through an identity provider', () => {
  let provider: Awaited<ReturnType<typeof startOidcProvider>>
  let browsing: Browsing
  beforeAll(async () => {
    const port = await findFreePort()
    provider = await startOidcProvider({
      ...CLIENT,
      redirectUri: `http://127.0.0.1:${port}/admin/api/oidc/callback`,
      people: {
        ann: { email: 'ann@example.com', email_verified: true, groups: ['admins'] },
        bo: { preferred_username: 'bo', groups: ['others'] },
      },
    })
    const options = ['--oidc-issuer', provider.issuer, '--oidc-client-id', CLIENT.clientId]
    const args = ['--port', `${port}`, ...options, '--oidc-role', 'admins=owner', '--password-sign-in', 'off']
    browsing = await startBrowsing(args, { environment: { TOLLGATE_OIDC_CLIENT_SECRET: CLIENT.clientSecret } })
  })
  afterAll(async () => {
    await browsing?.close()
    provider?.stop()
  })

  async function goThrough({ page }: Visit, name: string): Promise<void> {
    await page.getByRole('link', { name: DOOR }).click()
    await page.getByPlaceholder('Enter any login').fill(name)
    await page.getByPlaceholder('and password').fill('any')
    await page.getByRole('button', { name: 'Sign-in' }).click()
    await page.getByRole('button', { name: 'Continue' }).click()
  }

  test('a user with a role returns, signed in, to the requested page', async () => {
    const visit = await browsing.visit({ elsewhere: provider.issuer })
    const { page } = visit
    await visit.open('/keys?state=all', 'Sign in')
    expect(await page.getByLabel('Password').count()).toBe(0)
    await expectAccessible(page)
    await goThrough(visit, 'ann')
    await page.getByRole('heading', { level: 1, name: 'Keys' }).waitFor()
    expect(page.url()).toBe(`${browsing.origin}/admin/keys?state=all`)
    const [cookie, ...others] = await visit.context.cookies(`${browsing.origin}/admin`)
    expect([cookie, others]).toMatchObject([
      { name: `tollgate-${new URL(browsing.origin).port}`, httpOnly: true, sameSite: 'Strict' },
      [],
    ])
    await visit.close()
  })

  test.each(['light', 'dark'] as const)('a user without a role sees why, in %s, and can go back', async (colours) => {
    const visit = await browsing.visit({ elsewhere: provider.issuer, colours })
    const { page } = visit
    await visit.open('/', 'Sign in')
    await goThrough(visit, 'bo')
    await page.getByRole('heading', { level: 1, name: 'Sign-in failed' }).waitFor()
    await page.getByText('you have no role here').waitFor()
    await expectAccessible(page)
    await page.getByRole('link', { name: 'Back to the dashboard' }).click()
    await page.getByRole('link', { name: DOOR }).waitFor()
    await visit.close()
  })
})
