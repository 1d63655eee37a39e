/**
 * Serves the dashboard from memory: one page for every path below `/admin`, and assets by name. Loaded on first use; no
 * name reaches the file system.
 */
import { once } from '../domain/once.ts'
import { matchPath } from '../domain/path-pattern.ts'
import { accepts } from '../http/description.ts'
import { PAGE, type Packed } from './pages-bundle.ts'

declare const TOLLGATE_VERSION: string | undefined

interface Pages {
  /** @param asset the path after `/admin/assets/`; null is the page. Returns null if unknown. */
  serve(asset: string | null, request: Request): Promise<Response | null>
}

/** Only our own scripts, styles, and connections; no framing by others. */
const POLICY = [
  ...[
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data: blob:",
    'media-src blob:',
    "connect-src 'self'",
  ],
  ...["base-uri 'none'", "form-action 'self'", "frame-ancestors 'none'"],
].join('; ')

const FOR_ALL = {
  'x-content-type-options': 'nosniff',
  'cross-origin-resource-policy': 'same-origin',
  vary: 'accept-encoding',
}
const FOR_PAGE = {
  ...FOR_ALL,
  'cache-control': 'no-cache',
  'content-security-policy': POLICY,
  'x-frame-options': 'DENY',
  'cross-origin-opener-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
}
const FOR_ASSET = { ...FOR_ALL, 'cache-control': 'public, max-age=31536000, immutable' }

interface File {
  type: string
  gzip: Uint8Array<ArrayBuffer>
  br: Uint8Array<ArrayBuffer> | null
  plain: Uint8Array<ArrayBuffer> | null
  parts: Record<string, string[]>
}

type Unzip = (bytes: Uint8Array<ArrayBuffer>) => Uint8Array<ArrayBuffer>

/** RFC 6797. Applies to all ports of a host, so it isn't sent for localhost, which has other servers. */
const ONLY_HTTPS = { 'strict-transport-security': 'max-age=31536000' }

interface PagesOptions {
  load?(): Promise<Record<string, Packed>>
  unzip?: Unzip
  /** Whether this server itself has TLS. */
  isSecure?: boolean
}

export function createPages({ load = loadOwn, unzip = Bun.gunzipSync, isSecure = false }: PagesOptions = {}): Pages {
  const files = once(async () => unpack(await load()))
  return {
    async serve(asset, request) {
      if (asset === PAGE) return null
      const file = (await files.get()).get(asset ?? PAGE)
      if (!file) return null
      if (asset !== null) return toResponse(file, FOR_ASSET, request, unzip)
      const { hostname, pathname } = new URL(request.url)
      const lasting = isSecure && hostname !== 'localhost' ? ONLY_HTTPS : {}
      return toResponse(file, { ...FOR_PAGE, ...lasting, link: toLinks(file.parts, pathname) }, request, unzip)
    },
  }
}

const SESSION = '</admin/api/session>; rel=preload; as=fetch; crossorigin'

/** Preload links. Without them, a browser finds each file only in the previous one, which takes three more round trips. */
function toLinks(pages: Record<string, string[]>, path: string): string {
  const pattern = Object.keys(pages).find((pattern) => matchPath(`/admin${pattern}`, path) !== null)
  const needed = pages[pattern ?? ''] ?? []
  return [
    SESSION,
    ...needed.map(
      (name) =>
        `</admin/assets/${name}>; rel=${name.endsWith('.css') ? 'preload; as=style; crossorigin' : 'modulepreload'}`,
    ),
  ].join(', ')
}

/** Only the executable has a version at build time. */
const loadOwn = async () =>
  typeof TOLLGATE_VERSION === 'string'
    ? (await import('./pages-embedded.ts')).files
    : (await import('./pages-bundle.ts')).bundle({ withBrotli: false })

const unpack = (packed: Record<string, Packed>) =>
  new Map(
    Object.entries(packed).map(([name, { gzip, br, type, parts = {} }]): [string, File] => [
      name,
      {
        ...{ type, parts, gzip: Uint8Array.fromBase64(gzip), plain: null },
        br: br === undefined ? null : Uint8Array.fromBase64(br),
      },
    ]),
  )

function toResponse(file: File, headers: Record<string, string>, request: Request, unzip: Unzip): Response {
  const { type, gzip, br } = file
  const answer = (body: Uint8Array<ArrayBuffer>, encoding: Record<string, string>) =>
    new Response(body, { headers: { ...headers, 'content-type': type, ...encoding } })
  if (br && accepts(request, 'br')) return answer(br, { 'content-encoding': 'br' })
  if (accepts(request, 'gzip')) return answer(gzip, { 'content-encoding': 'gzip' })
  file.plain ??= unzip(gzip)
  return answer(file.plain, {})
}
