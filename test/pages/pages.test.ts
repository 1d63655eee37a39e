/** The dashboard's pages as they are served, from what a server that runs from source bundles at the first visit. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { gunzipSync } from 'node:zlib'
import { bundle, type Packed } from '../../src/pages/bundle.ts'
import { createPages } from '../../src/pages/pages.ts'
import { type Gateway, startGateway } from '../support/gateway.ts'

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

/** The path goes as it is, dots and all. */
async function get(path: string, headers: Record<string, string> = {}, at = gateway) {
  const { hostname, port } = new URL(at.app.origin)
  const lines = [`GET ${path} HTTP/1.1`, `host: ${hostname}:${port}`, 'connection: close']
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`)
  const received: Buffer[] = []
  const { promise: ended, resolve } = Promise.withResolvers<void>()
  await Bun.connect({
    hostname,
    port: Number(port),
    socket: {
      open: (socket) => void socket.write(`${lines.join('\r\n')}\r\n\r\n`),
      data: (_, bytes) => void received.push(Buffer.from(bytes)),
      close: () => resolve(),
    },
  })
  await ended
  const all = Buffer.concat(received)
  const end = all.indexOf('\r\n\r\n')
  const [first = '', ...rest] = all.subarray(0, end).toString().split('\r\n')
  return {
    status: Number(first.split(' ')[1]),
    headers: new Headers(
      rest.map((line): [string, string] => [
        line.slice(0, line.indexOf(':')),
        line.slice(line.indexOf(':') + 1).trim(),
      ]),
    ),
    body: all.subarray(end + 4),
  }
}

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
  expect(paths.length).toBeGreaterThan(2)
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

describe('nothing else is served', () => {
  test.each([
    '/admin/assets/',
    '/admin/assets/index.html',
    '/admin/assets/nothing.js',
    '/admin/assets/__proto__',
    '/admin/assets/..%2f..%2fpackage.json',
    '/admin/assets/%2e%2e/%2e%2e/package.json',
    '/admin/assets/../../../../../../etc/passwd',
    '/admin/assets//etc/passwd',
    '/admin/assets/%00',
  ])('%s', async (path) => {
    const { status, body } = await get(path)
    expect(body.toString()).not.toMatch(/root:|"dependencies"/)
    // What a client has resolved before it asked is another address: of a page, or of nothing.
    expect(status === 404 || body.toString().includes('<div id="app">')).toBe(true)
  })
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

test('the best form that a browser takes is the one it gets', async () => {
  const pages = createPages(async () => files)
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
  const pages = createPages(
    async () => files,
    (bytes) => {
      unpacked++
      return gunzipSync(bytes)
    },
  )
  const [script = ''] = Object.keys(files).filter((name) => name.endsWith('.js'))
  for (let i = 0; i < 1_000; i++) await pages.serve(script, new Request('http://localhost/'))
  expect(unpacked).toBe(1)
})

test('the first page takes less than 150 kB of compressed script, whatever it is', () => {
  const sizeOf = (name: string) => Uint8Array.fromBase64(files[name]?.gzip ?? '').length
  const text = (name: string) => gunzipSync(Uint8Array.fromBase64(files[name]?.gzip ?? '')).toString()
  const named = (source: string) =>
    [...source.matchAll(/[\w-]+\.js/g)].map(([name]) => name).filter((name) => name in files)
  const [entry = ''] = named(text('index.html'))
  // Whatever page comes first: all that can be loaded, but for charts, which none of them begins with.
  const reached = new Set([entry])
  for (const name of reached) for (const other of named(text(name))) reached.add(other)
  const total = [...reached].reduce((sum, name) => sum + sizeOf(name), 0)
  expect(sizeOf(entry)).toBeGreaterThan(5_000)
  expect(total).toBeLessThan(150_000)
})
