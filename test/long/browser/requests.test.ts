/** Live requests, yesterday's errors, one request in detail, and the overview. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { dayOf } from '../../../src/domain/time.ts'
import { databasePath } from '../../../src/store/sqlite/files.ts'
import { createLedgerWriter } from '../../../src/store/sqlite/ledger-apply.ts'
import { openDatabase } from '../../../src/store/sqlite/open.ts'
import { type Browsing, expectAccessible, hasNoBrowser, startBrowsing, type Visit } from '../../browser/browsing.ts'
import { settling, toCall, toOpen, toSettled, toSettledCall } from '../../ledger/fixture.ts'

describe.skipIf(hasNoBrowser)('in a browser', () => {
  let browsing: Browsing
  let visit: Visit
  let page: Page
  let secret = ''
  beforeAll(async () => {
    browsing = await startBrowsing()
    visit = await browsing.visit()
    page = visit.page
    await browsing.setUp(visit, 'ann')
    const { stdout } = await browsing.place.run('keys', 'create', '--name', 'dev', '--json')
    secret = JSON.parse(stdout).key
  })
  afterAll(async () => {
    await visit?.close()
    await browsing?.close()
  })

  const ask = async (model: string) => {
    const response = await fetch(`${browsing.server.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] }),
    })
    await response.body?.cancel()
    return response.status
  }

  test('a page without requests shows how to send the first one, and shows it once it ends', async () => {
    await visit.open('/requests', 'Requests')
    await page.getByText('No requests yet').waitFor()
    await expectAccessible(page)
    await page.getByText('Live', { exact: true }).waitFor()
    expect(await ask('tollgate/demo')).toBe(200)
    await page.getByRole('link', { name: 'tollgate/demo', exact: true }).waitFor()
    await expectAccessible(page)
  })

  test('requests that arrive during a pause appear on resume, if they match the filters', async () => {
    await page.getByRole('button', { name: 'Pause' }).click()
    await page.getByText('Paused').waitFor()
    expect(await ask('tollgate/demo')).toBe(200)
    expect(await page.locator('tbody tr').count()).toBe(1)
    await page.getByRole('button', { name: 'Resume' }).click()
    await page.locator('tbody tr').nth(1).waitFor()
    await page.getByLabel('Status').selectOption({ label: 'Errors' })
    await page.getByText('No matching requests.').waitFor()
    expect(page.url()).toEndWith('/requests?state=errors')
    await page.getByRole('link', { name: 'Clear filters' }).first().click()
    await page.locator('tbody tr').nth(1).waitFor()
  })

  test("a request's page explains it: its calls, its tokens, and its cost", async () => {
    await page.getByRole('link', { name: 'tollgate/demo', exact: true }).first().focus()
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: /^Request …/ }).waitFor()
    await page.getByText('1 call').waitFor()
    await page.getByText('(matches the calculation)').waitFor()
    await page.getByRole('button', { name: 'Copy ID' }).click()
    const id = await page.evaluate('navigator.clipboard.readText()')
    expect(page.url()).toEndWith(`/requests/${id}`)
    await page.getByRole('button', { name: 'Copy as curl' }).click()
    const command = await page.evaluate('navigator.clipboard.readText()')
    expect(command).toContain(`curl -N ${browsing.origin}/v1/chat/completions`)
    expect(command).toContain('"model":"tollgate/demo"')
    await expectAccessible(page)
  })

  test('after the first request, the overview opens first; its charts are usable by arrow keys, and are also tables', async () => {
    await visit.open('/', 'Overview')
    const chart = page.getByRole('slider', { name: 'Cost by day and model' })
    await chart.locator('canvas').waitFor()
    await expectAccessible(page)
    await chart.focus()
    await page.keyboard.press('ArrowLeft')
    await page.keyboard.press('Home')
    expect(await chart.getAttribute('aria-valuenow')).toBe('1')
    await page.getByRole('button', { name: /^Table.*Cost/ }).click()
    await page.getByRole('columnheader', { name: 'tollgate/demo' }).waitFor()
    await page.getByRole('button', { name: 'Today' }).click()
    await page.getByRole('columnheader', { name: 'Hour (UTC)' }).waitFor()
    expect(page.url()).toEndWith('?table=cost&range=today')
    await expectAccessible(page)
    await page.getByRole('link', { name: '2', exact: true }).first().click()
    await page.getByRole('heading', { level: 1, name: 'Requests' }).waitFor()
    await page.locator('tbody tr').nth(1).waitFor()
  })

  /** The response of a provider to a wrong credential. */
  function putFailedYesterday(): string {
    const open = toOpen({ createdMs: dayOf(Date.now()) - 3_600_000, model: 'acme/large', upstream: 'acme' })
    const call = toSettledCall(toCall(open, 1, { upstream: 'acme' }), {
      ...{ status: 'failed', errorCode: 'status', httpStatus: 401, upstreamRequestId: 'of-acme' },
    })
    const row = toSettled(open, { status: 'failed', httpStatus: 502, errorCode: 'upstream_failed' })
    const database = openDatabase(databasePath(join(browsing.place.folder, 'data')), { busyMs: 5_000 })
    createLedgerWriter(database).apply([settling(row, [call])])
    database.close()
    return row.id
  }

  test('two choices and a click show which requests failed yesterday and why, and they can be exported', async () => {
    const id = putFailedYesterday()
    await visit.open('/requests', 'Requests')
    await page.getByLabel('Status').selectOption({ label: 'Errors' })
    await page.getByLabel('Period').selectOption({ label: 'Yesterday (UTC)' })
    await page.getByText('Upstream acme returned 401.').waitFor()
    expect(page.url()).toEndWith('/requests?state=errors&since=yesterday&until=today')
    await expectAccessible(page)
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'Export CSV' }).click(),
    ])
    expect(await Bun.file(await download.path()).text()).toContain('502,upstream_failed,Upstream acme returned 401.')
    await page.getByRole('link', { name: 'acme/large' }).click()
    await page.getByText('Check the credential of upstream acme.').waitFor()
    expect(page.url()).toEndWith(`/requests/${id}`)
    await expectAccessible(page)
    await page.goBack()
    await page.getByRole('link', { name: 'Remove filter Errors' }).click()
    await page.getByRole('button', { name: 'More filters' }).click()
    await page.getByLabel('Upstream').selectOption({ label: 'demo' })
    await page.getByText('No matching requests.').waitFor()
    await expectAccessible(page)
  })

  test('a request is found by any of its IDs', async () => {
    const id = putFailedYesterday()
    for (const text of [`chatcmpl-${id}`, id.slice(-8)]) {
      await visit.open('/requests', 'Requests')
      await page.getByRole('searchbox').first().waitFor()
      await page.keyboard.press('/')
      await page.keyboard.type(text)
      await page.keyboard.press('Enter')
      await page.getByRole('heading', { level: 1, name: `Request …${id.slice(-8)}` }).waitFor()
    }
    await visit.open('/requests?id=ffffffff', 'Requests')
    await page.getByText("Request 'ffffffff' not found.").waitFor()
    await expectAccessible(page)
  })
})
