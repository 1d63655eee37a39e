/**
 * Bundles the dashboard for browsers: at the first visit when run from source; as a program, prints what the executable
 * will embed.
 */
import { join } from 'node:path'
import { brotliCompressSync, gzipSync } from 'node:zlib'

/** Compressed, base64. */
export interface Packed {
  type: string
  gzip: string
  /** Slow to compress, so only in the executable. */
  br?: string
  /** For the page: the styles and scripts of each URL, by path pattern. The first script is before its imports. */
  parts?: Record<string, string[]>
}

export const PAGE = 'index.html'

/** By name: the page, and its assets named by hash. */
export async function bundle({ withBrotli }: { withBrotli: boolean }): Promise<Record<string, Packed>> {
  const { outputs } = await Bun.build({
    entrypoints: [join(import.meta.dir, '../dashboard', PAGE)],
    target: 'browser',
    minify: true,
    splitting: true,
    publicPath: '/admin/assets/',
    naming: { entry: '[hash].[ext]', chunk: '[hash].[ext]', asset: '[hash].[ext]' },
    define: { 'process.env.NODE_ENV': '"production"' },
  })
  const files: Record<string, Packed> = {}
  const texts = new Map<string, string>()
  for (const output of outputs) {
    const bytes = new Uint8Array(await output.arrayBuffer())
    const name = output.path.endsWith('.html') ? PAGE : output.path.replace(/^\.\//, '')
    if (name.endsWith('.js')) texts.set(name, new TextDecoder().decode(bytes))
    files[name] = {
      type: output.type,
      gzip: gzipSync(bytes, { level: 9 }).toBase64(),
      ...(withBrotli && { br: brotliCompressSync(bytes).toBase64() }),
    }
  }
  const page = files[PAGE]
  if (page)
    page.parts = toParts(
      texts,
      Object.keys(files).filter((name) => name.endsWith('.css')),
    )
  return files
}

const PAGE_ENTRY = /path:"([^"]+)"(?:(?!path:").)*?import\("\/admin\/assets\/([\w-]+\.js)"\)/gs
const IMPORT = /\b(?:from|import)"\/admin\/assets\/([\w-]+\.js)"/g

/** Reads the list of pages in the bundle. Of pages at one path, uses the last. */
function toParts(texts: ReadonlyMap<string, string>, styles: readonly string[]): Record<string, string[]> {
  const first = [...texts].find(([, text]) => text.match(PAGE_ENTRY))
  const pages = [...(first?.[1].matchAll(PAGE_ENTRY) ?? [])]
  return Object.fromEntries(
    pages.map(([, path, script]) => {
      const needed = new Set([String(first?.[0]), String(script)])
      for (const name of needed)
        for (const [, other] of (texts.get(name) ?? '').matchAll(IMPORT)) needed.add(String(other))
      return [path, [...styles, ...needed]]
    }),
  )
}

/** A Bun macro: its result is embedded at build time. */
export function bundled(): Record<string, Packed> {
  // A bundler inside another waits forever, so use another process.
  const { stdout, success } = Bun.spawnSync([process.execPath, import.meta.path], { stderr: 'inherit' })
  if (!success) throw new Error('Bundling the dashboard failed.')
  return JSON.parse(stdout.toString())
}

if (import.meta.main) process.stdout.write(JSON.stringify(await bundle({ withBrotli: true })))
