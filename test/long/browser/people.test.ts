/** Teams, users and their roles, tokens, settings, and the audit log, as an owner and a member use them. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import {
  type Browsing,
  expectAccessible,
  expectFocus,
  hasNoBrowser,
  startBrowsing,
  type Visit,
} from '../../browser/browsing.ts'

const OWN_PASSWORD = 'another way to the sea'

describe.skipIf(hasNoBrowser)('in a browser', () => {
  let browsing: Browsing
  let owner: Visit
  let member: Visit
  let secret = ''
  beforeAll(async () => {
    browsing = await startBrowsing()
    owner = await browsing.visit()
    member = await browsing.visit()
    await browsing.setUp(owner, 'ann')
  })
  afterAll(async () => {
    await owner?.close()
    await member?.close()
    await browsing?.close()
  })

  const press = ({ page }: Visit, name: string) => page.getByRole('button', { name, exact: true }).click()
  const statusOf = async (key: string) =>
    (await fetch(`${browsing.server.baseUrl}/models`, { headers: { authorization: `Bearer ${key}` } })).status

  test('a team is created, and opened at once', async () => {
    const { page } = owner
    await owner.open('/teams', 'Teams')
    await page.getByRole('heading', { name: 'No teams yet' }).waitFor()
    await page.getByRole('link', { name: 'New team' }).click()
    await page.getByLabel('Name').fill('research')
    await page.getByLabel('Keys per member').fill('1')
    await press(owner, 'Create team')
    await page.getByRole('dialog', { name: 'research' }).getByText('Keys per member').waitFor()
    await expectAccessible(page)
  })

  test('an invite link creates a member once, who then has their own key', async () => {
    await owner.open('/people/new', 'Invite user')
    await owner.page.getByLabel('Name').fill('bob')
    await owner.page.getByLabel('Role').selectOption('member')
    await press(owner, 'Invite user')
    await owner.page.getByRole('alert').getByText('A member needs a team. Choose one.').waitFor()
    await owner.page.getByLabel('Team').selectOption({ label: 'research' })
    await press(owner, 'Invite user')
    await owner.page.getByRole('heading', { level: 1, name: 'Invitation for bob' }).waitFor()
    await expectAccessible(owner.page)
    const link = (await owner.page.locator('.secret code').textContent()) ?? ''

    const { page } = member
    await page.goto(link)
    expect(await page.getByLabel('Name').inputValue()).toBe('bob')
    await press(member, 'Set password')
    await page.getByText('Enter the password.').waitFor()
    await page.getByLabel('Name').fill('')
    await press(member, 'Set password')
    await page.getByText('Enter the name.').waitFor()
    await page.getByLabel('Name').fill('bob')
    await page.getByLabel('New password').fill(OWN_PASSWORD)
    await press(member, 'Set password')
    await page.getByRole('navigation').first().waitFor()
    expect(page.url()).not.toContain('#')
    await member.open('/team', 'Team research')
    await expectAccessible(page)
    await member.open('/models', 'Models')
    await page.getByRole('button', { name: 'Copy tollgate/demo', exact: true }).waitFor()
    await member.open('/teams', 'No access')
    await member.open('/keys/new', 'New key')
    await page.getByLabel('Name').fill('laptop')
    await press(member, 'Create key')
    secret = (await page.locator('.secret code').textContent()) ?? ''
    expect(await statusOf(secret)).toBe(200)
    await member.open('/keys/new', 'New key')
    await page.getByLabel('Name').fill('one more')
    await press(member, 'Create key')
    await page.getByText('Members of this team can have at most 1 key').waitFor()
  })

  test('members see the spend of their own keys, which leads to the requests', async () => {
    const { page } = member
    await member.open('/usage', 'Usage')
    await page.getByText('No requests in the last 7 days').waitFor()
    const body = JSON.stringify({ model: 'tollgate/demo', messages: [{ role: 'user', content: 'Hello' }] })
    const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' }
    await fetch(`${browsing.server.baseUrl}/chat/completions`, { method: 'POST', headers, body })
    await page.getByRole('button', { name: 'Today' }).click()
    await page.getByRole('heading', { name: '1 request today' }).waitFor()
    await page
      .getByRole('table', { name: 'By model' })
      .getByRole('link', { name: 'tollgate/demo', exact: true })
      .waitFor()
    await expectAccessible(page)
    await page.getByRole('table', { name: 'By key' }).getByRole('link', { name: 'laptop' }).click()
    await page.getByRole('heading', { level: 1, name: 'Requests' }).waitFor()
    await page
      .getByRole('table', { name: 'Requests' })
      .getByRole('link', { name: 'tollgate/demo', exact: true })
      .waitFor()
  })

  test('users and teams are searched, even by someone faster than the list', async () => {
    const { page } = owner
    const list = '**/admin/api/teams'
    const gate = Promise.withResolvers<void>()
    await page.route(list, async (route) => {
      await gate.promise
      await route.continue()
    })
    await owner.open('/teams', 'Teams')
    await page.keyboard.press('/')
    gate.resolve()
    await page.getByRole('link', { name: 'research' }).waitFor()
    await expectFocus(page, 'document.activeElement.type', 'search')
    await page.unroute(list)
    await page.keyboard.type('nobody')
    await page.getByText('0 of 1').waitFor()
    await owner.open('/people?search=member+RESEARCH', 'People')
    await page.getByText('1 of 2').waitFor()
    await page.getByRole('link', { name: 'bob' }).waitFor()
    await expectAccessible(page)
  })

  test('they change their password, which requires the old one', async () => {
    const { page } = member
    await member.open('/account', 'Your account')
    await page.getByText('this session').waitFor()
    await page.getByLabel('Current password').first().fill('not this one')
    await page.getByLabel('New password').fill('a third way to the sea')
    await press(member, 'Change password')
    await page.getByText('Wrong current password.').waitFor()
    await page.getByLabel('Current password').first().fill(OWN_PASSWORD)
    await press(member, 'Change password')
    await page.locator('.notice').getByText('Password changed.').waitFor()
  })

  test('a disabled user is signed out at once, and their key stops working', async () => {
    const { page } = owner
    await owner.open('/people', 'People')
    await page.getByRole('link', { name: 'bob' }).click()
    await page.getByText('from 127.0.0.1').waitFor()
    await press(owner, 'Disable')
    await page.getByRole('dialog', { name: 'Disable bob' }).getByRole('button', { name: 'Disable' }).click()
    await page.locator('.notice').getByText('Disabled bob and revoked 1 key.').waitFor()
    expect(await statusOf(secret)).toBe(401)
    await member.page.goto(`${browsing.origin}/admin/keys`)
    await member.page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor()
  })

  test('a token is created with a command that works unchanged, until it is revoked', async () => {
    const { page } = owner
    await owner.open('/settings/tokens/new', 'New token')
    await page.getByLabel('Name').fill('grafana')
    await press(owner, 'Create token')
    const token = (await page.locator('.secret code').textContent()) ?? ''
    const command = (await page.locator('.code code').textContent()) ?? ''
    if (Bun.which('curl') !== null) expect((await Bun.$`sh -c ${command}`.quiet().json()).keys).toBeArrayOfSize(1)
    const headers = { authorization: `Bearer ${token}` }
    const ask = async () => (await fetch(`${browsing.origin}/admin/api/keys`, { headers })).status
    expect(await ask()).toBe(200)
    await owner.open('/settings/tokens', 'Tokens')
    await page.getByRole('link', { name: 'grafana' }).click()
    await expectAccessible(page)
    await press(owner, 'Revoke token')
    await page.locator('.notice').getByText('Revoked grafana.').waitFor()
    expect(await ask()).toBe(401)
  })

  test('an invalid setting shows why, and a saved one waits for the next start', async () => {
    const { page } = owner
    await owner.open('/settings?setting=retention', 'Settings')
    await page.getByLabel('New value').fill('soon')
    await press(owner, 'Save')
    await page.getByText('must be a duration of a day or more').waitFor()
    await page.getByLabel('New value').fill('30d')
    await press(owner, 'Save')
    await page.getByText('1 change').waitFor()
    await owner.open('/settings/server', 'Server')
    await page.getByText('Version').waitFor()
  })

  test('a backup is created and downloaded', async () => {
    const { page } = owner
    await owner.open('/settings/backups', 'Backups')
    await press(owner, 'Create backup')
    const downloading = page.waitForEvent('download')
    await page.getByRole('link', { name: /^made-/ }).click()
    const download = await downloading
    expect(download.suggestedFilename()).toEndWith('.sqlite')
    expect(await download.failure()).toBeNull()
  })

  test('the audit log has all of these changes, with the values before', async () => {
    const { page } = owner
    await owner.open('/audit', 'Audit log')
    await page.getByText('downloaded the backup').waitFor()
    await expectAccessible(page)
    await page.getByLabel('Type', { exact: true }).selectOption('settings')
    await page.locator('.audit ins').getByText('30d').waitFor()
    expect(await page.locator('.audit > li').count()).toBe(1)
    expect(page.url()).toEndWith('/admin/audit?action=settings')
    await page.getByLabel('Actor', { exact: true }).pressSequentially('nobody')
    await page.keyboard.press('Enter')
    await page.getByText('No matching changes.').waitFor()
  })
})
