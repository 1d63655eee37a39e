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
  for (const output of outputs) {
    const bytes = new Uint8Array(await output.arrayBuffer())
    const name = output.path.endsWith('.html') ? PAGE : output.path.replace(/^\.\//, '')
    files[name] = {
      type: output.type,
      gzip: gzipSync(bytes, { level: 9 }).toBase64(),
      ...(withBrotli && { br: brotliCompressSync(bytes).toBase64() }),
    }
  }
  return files
}

/** A Bun macro: its result is embedded at build time. */
export function bundled(): Record<string, Packed> {
  // A bundler inside another waits forever, so use another process.
  const { stdout, success } = Bun.spawnSync([process.execPath, import.meta.path], { stderr: 'inherit' })
  if (!success) throw new Error('Bundling the dashboard failed.')
  return JSON.parse(stdout.toString())
}

if (import.meta.main) process.stdout.write(JSON.stringify(await bundle({ withBrotli: true })))
