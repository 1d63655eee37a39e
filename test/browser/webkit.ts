/**
 * WebKit, the engine of Safari, as WebKitGTK's MiniBrowser behind its WebDriver (W3C,
 * https://www.w3.org/TR/webdriver2/): Playwright only supports its own builds of WebKit.
 */
import { existsSync } from 'node:fs'

const MINI_BROWSER = `/usr/lib/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu/webkit2gtk-4.1/MiniBrowser`

/** For `describe.skipIf`. */
export const hasNoWebKit = !existsSync(MINI_BROWSER) || !Bun.which('WebKitWebDriver') || !Bun.which('Xvfb')
if (hasNoWebKit)
  console.warn('The tests in WebKit are skipped: it is not installed (apt-get install webkit2gtk-driver xvfb).')

const ELEMENT = 'element-6066-11e4-a52e-4f735466cecf'
const STARTED_MS = 20_000
const LAID_OUT_MS = 200
const FOUND_MS = 30_000

export interface WebKit {
  open(url: string): Promise<void>
  setWidth(width: number): Promise<void>
  /** Runs statements, or returns the value of an expression or of its promise. */
  evaluate<T>(script: string): Promise<T>
  /** Waits until an element of the XPath is visible, and clicks it. */
  click(xpath: string): Promise<void>
  see(xpath: string): Promise<void>
  /** Replaces the text of the field with this label. */
  fill(label: string, text: string): Promise<void>
  press(key: string): Promise<void>
  close(): Promise<void>
}

/** Any free port: the driver can't report the port it was given. */
function findPort(): number {
  const server = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  server.stop(true)
  return server.port
}

async function startDisplay() {
  const child = Bun.spawn(['Xvfb', '-displayfd', '1', '-screen', '0', '1700x1300x24', '-nolisten', 'tcp'], {
    ...{ stdout: 'pipe', stderr: 'ignore' },
  })
  const { value } = await child.stdout.getReader().read()
  return { child, name: `:${new TextDecoder().decode(value).trim()}` }
}

function isExpression(script: string): boolean {
  try {
    return Boolean(new Function(`return (${script}\n)`))
  } catch {
    return false
  }
}

export async function startWebKit(): Promise<WebKit> {
  await using starting = new AsyncDisposableStack()
  const display = await startDisplay()
  starting.defer(() => display.child.kill())
  const port = findPort()
  const driver = Bun.spawn(['WebKitWebDriver', `--port=${port}`], {
    env: {
      ...process.env,
      DISPLAY: display.name,
      LIBGL_ALWAYS_SOFTWARE: '1',
      LANG: 'en_US.UTF-8',
      LC_ALL: 'en_US.UTF-8',
    },
    ...{ stdout: 'ignore', stderr: 'ignore' },
  })
  starting.defer(() => driver.kill())

  async function command<T>(method: string, path: string, body?: unknown): Promise<T> {
    const init = body === undefined ? { method } : { method, body: JSON.stringify(body) }
    const response = await fetch(`http://127.0.0.1:${port}${path}`, init)
    const { value } = (await response.json()) as { value: T & { error?: string; message?: string } }
    if (!response.ok) throw new Error(`${path}: ${value.error}: ${value.message}`)
    return value
  }
  async function until<T>(what: string, ms: number, attempt: () => Promise<T>): Promise<T> {
    const deadlineMs = performance.now() + ms
    for (;;) {
      try {
        return await attempt()
      } catch (error) {
        if (performance.now() > deadlineMs) throw new Error(`${what}: ${error}`)
        await Bun.sleep(50)
      }
    }
  }

  await until('WebKitWebDriver', STARTED_MS, () => command('GET', '/status'))
  const alwaysMatch = { 'webkitgtk:browserOptions': { binary: MINI_BROWSER, args: ['--automation'] } }
  const { sessionId } = await command<{ sessionId: string }>('POST', '/session', { capabilities: { alwaysMatch } })
  const session = `/session/${sessionId}`
  const find = async (xpath: string) => {
    const element = await command<Record<string, string>>('POST', `${session}/element`, {
      ...{ using: 'xpath', value: xpath },
    })
    return `${session}/element/${element[ELEMENT]}`
  }
  const see = (xpath: string) =>
    until(xpath, FOUND_MS, async () => {
      const element = await find(xpath)
      if (!(await command<boolean>('GET', `${element}/displayed`))) throw new Error('not displayed')
      return element
    })
  const evaluate = <T>(script: string) =>
    command<T>('POST', `${session}/execute/async`, {
      // Without `eval`, which the pages' policy forbids.
      script: `const done = arguments[0]; (async () => { ${isExpression(script) ? `return (${script}\n)` : script}\n })().then(done, (error) => done(String(error)))`,
      args: [],
    })
  const stack = starting.move()
  return {
    async open(url) {
      await command('POST', `${session}/url`, { url })
    },
    async setWidth(width) {
      await command('POST', `${session}/window/rect`, { x: 0, y: 0, width, height: 1_000 })
      // The layout changes some frames later.
      await evaluate(`new Promise((resolve) => setTimeout(() => requestAnimationFrame(resolve), ${LAID_OUT_MS}))`)
    },
    evaluate,
    click: (xpath) =>
      until(`click ${xpath}`, FOUND_MS, async () => {
        await command('POST', `${await see(xpath)}/click`, {})
      }),
    async see(xpath) {
      await see(xpath)
    },
    async fill(label, text) {
      const field = await see(`//*[@aria-label="${label}" or @id=//label[normalize-space()="${label}"]/@for]`)
      await command('POST', `${field}/clear`, {})
      await command('POST', `${field}/value`, { text })
    },
    async press(key) {
      const actions = [
        { type: 'key', id: 'keyboard', actions: ['keyDown', 'keyUp'].map((type) => ({ type, value: key })) },
      ]
      await command('POST', `${session}/actions`, { actions })
    },
    async close() {
      await command('DELETE', session)
      await stack.disposeAsync()
    },
  }
}
