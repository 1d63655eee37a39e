/**
 * Bundles the pages of `dashboard/` for browsers. A server that runs from source does so at the first visit; as a program it prints
 * what the executable will hold.
 */
import { join } from 'node:path'
import { brotliCompressSync, gzipSync } from 'node:zlib'

/** A file as a browser gets it: compressed, in base64. */
export interface Packed {
  type: string
  gzip: string
  /** Takes a moment to make, so that only the executable has it. */
  br?: string
}

export const PAGE = 'index.html'

/** By name: the page itself, and what it loads, named by what is in it. */
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

/** Run while the code is built, as a macro of Bun's: what it returns stands in the code then. */
export function bundled(): Record<string, Packed> {
  // A bundler that runs inside of another waits for ever, so another process does it.
  const { stdout, success } = Bun.spawnSync([process.execPath, import.meta.path], { stderr: 'inherit' })
  if (!success) throw new Error('The dashboard does not bundle.')
  return JSON.parse(stdout.toString())
}

if (import.meta.main) process.stdout.write(JSON.stringify(await bundle({ withBrotli: true })))
