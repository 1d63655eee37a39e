/** The dashboard's pages as they are served, from what a server that runs from source bundles at the first visit. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { gunzipSync } from 'node:zlib'
import { createPages } from '../../src/server/pages.ts'
import { bundle, type Packed } from '../../src/server/pages-bundle.ts'
import { type Gateway, startGateway } from '../support/gateway.ts'
import { askRaw } from '../support/raw.ts'

let gateway: Gateway
let closed: Gateway
let files: Record<string, Packed>
beforeAll(async () => {
  ;[gateway, closed, files] = await Promise.all([
    startGateway({ config: { corsOrigins: ['*'] } }),
    startGateway({ config: { dashboard: false } }),
    bundle({ withBrotli: true }),
  ])
})
afterAll(async () => {
  await gateway.stop()
  await closed.stop()
})

const get = (path: string, headers: Record<string, string> = {}, at = gateway) =>
  askRaw(at.app.origin, path, { headers: Object.entries(headers) })

const assetsOf = (page: string) =>
  [...page.matchAll(/(?:src|href)="(\/admin\/assets\/[^"]+)"/g)].map(([, path]) => String(path))

test('each address below /admin gives the page, and / leads there', async () => {
  for (const path of ['/admin', '/admin/', '/admin/keys', '/admin/requests/4f9a?x=1']) {
    const { status, headers, body } = await get(path)
    expect([path, status, headers.get('content-type')]).toEqual([path, 200, 'text/html;charset=utf-8'])
    expect(body.toString()).toContain('<div id="app">')
  }
  const { status, headers } = await get('/')
  expect([status, headers.get('location')]).toEqual([302, '/admin'])
})

test('the page may run and load nothing that is not of this server, and stands in nobody else’s frame', async () => {
  const { headers, body } = await get('/admin')
  const policy = headers.get('content-security-policy') ?? ''
  expect(policy).toContain("default-src 'none'")
  expect(policy).toContain("frame-ancestors 'none'")
  expect(policy).not.toMatch(/unsafe|\*|https?:/)
  expect(headers.get('x-frame-options')).toBe('DENY')
  expect(headers.get('x-content-type-options')).toBe('nosniff')
  expect(headers.get('cache-control')).toBe('no-cache')
  expect(headers.get('access-control-allow-origin')).toBeNull()
  const page = body.toString()
  expect(page).not.toMatch(/\sstyle=|\son\w+=|<style|<script(?![^>]*\ssrc=)/)
  for (const path of assetsOf(page)) expect(path).toStartWith('/admin/assets/')
})

test('what the page loads is there, kept for ever, and in the form that was asked for', async () => {
  const paths = assetsOf((await get('/admin')).body.toString())
  expect(paths).toHaveLength(2)
  for (const path of paths) {
    const plain = await get(path)
    expect([path, plain.status]).toEqual([path, 200])
    expect(plain.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
    expect(plain.headers.get('x-content-type-options')).toBe('nosniff')
    expect(plain.headers.get('vary')).toBe('accept-encoding')
    expect(plain.headers.get('content-encoding')).toBeNull()
    const packed = await get(path, { 'accept-encoding': 'gzip, deflate' })
    expect(packed.headers.get('content-encoding')).toBe('gzip')
    expect(gunzipSync(packed.body)).toEqual(plain.body)
  }
})

test('without a dashboard there is no page, nothing it would load and no way to it, but the API', async () => {
  for (const path of ['/', '/admin', '/admin/keys', '/admin/assets/x.js'])
    expect([path, (await get(path, {}, closed)).status]).toEqual([path, 404])
  expect((await get('/admin/api/session', {}, closed)).status).toBe(200)
})

test('the API is not taken for a page', async () => {
  const { headers } = await get('/admin/api/session')
  expect(headers.get('content-type')).toStartWith('application/json')
  expect((await get('/admin/api/nothing')).status).toBe(404)
})

test('an address names all scripts of its page at once, so that none waits for another', async () => {
  for (const path of ['/admin', '/admin/keys', '/admin/models/new', '/admin/requests/4f9a?x=1']) {
    const { headers, body } = await get(path)
    const link = headers.get('link') ?? ''
    const named = [...link.matchAll(/<(\/admin\/assets\/[^>]+\.js)>; rel=modulepreload/g)].map(([, script]) =>
      String(script),
    )
    expect(link).toStartWith('</admin/api/session>; rel=preload; as=fetch; crossorigin, ')
    expect(body.toString()).toContain(String(named[0]))
    expect(named.length).toBeGreaterThan(1)
    for (const script of named) {
      const text = (await get(script)).body.toString()
      for (const [, other] of text.matchAll(/\b(?:from|import)"([^"]+\.js)"/g)) expect(named).toContain(String(other))
    }
  }
})

test('the best form that a browser takes is the one it gets', async () => {
  const pages = createPages({ load: async () => files })
  const [script = ''] = Object.keys(files).filter((name) => name.endsWith('.js'))
  const encodingFor = async (accepted: string) => {
    const request = new Request('http://localhost/', { headers: { 'accept-encoding': accepted } })
    return (await pages.serve(script, request))?.headers.get('content-encoding') ?? 'none'
  }
  expect(await encodingFor('gzip, deflate, br, zstd')).toBe('br')
  expect(await encodingFor('br;q=0, gzip;q=0.5')).toBe('gzip')
  expect(await encodingFor('gzip; q=0.0, brotli')).toBe('none')
  expect(await encodingFor('')).toBe('none')
})

test('a file that a thousand clients want as it is, is unpacked once', async () => {
  let unpacked = 0
  const pages = createPages({
    load: async () => files,
    unzip(bytes) {
      unpacked++
      return gunzipSync(bytes)
    },
  })
  const [script = ''] = Object.keys(files).filter((name) => name.endsWith('.js'))
  for (let i = 0; i < 1_000; i++) await pages.serve(script, new Request('http://localhost/'))
  expect(unpacked).toBe(1)
})

test('the first page takes less than 78 kB of compressed script, whichever it is', () => {
  const sizeOf = (name: string) => Uint8Array.fromBase64(files[name]?.gzip ?? '').length
  const text = (name: string) => gunzipSync(Uint8Array.fromBase64(files[name]?.gzip ?? '')).toString()
  const scripts = Object.keys(files).filter((name) => name.endsWith('.js'))
  const [entry = ''] = scripts.filter((name) => text('index.html').includes(name))
  const pages = Object.values(files['index.html']?.parts ?? {})
  const total = (parts: readonly string[]) =>
    parts.filter((name) => name.endsWith('.js')).reduce((sum, name) => sum + sizeOf(name), 0)
  const most = Math.max(...pages.map(total))
  // With the session, no more than the six that a browser asks for at once.
  for (const [path, parts] of Object.entries(files['index.html']?.parts ?? {}))
    if (!path.includes(':')) expect([path, parts.length + 1 <= 6]).toEqual([path, true])
  expect(sizeOf(entry)).toBeGreaterThan(5_000)
  expect(most).toBeGreaterThan(sizeOf(entry) + 5_000)
  expect(most).toBeLessThan(78_000)
})
