/**
 * The browser that the tests drive: Chromium, or Firefox with `BROWSER=firefox`. Debian's Firefox ESR speaks WebDriver BiDi, which Playwright
 * calls the channel `moz-firefox`; Playwright 1.65 needs a newer Firefox.
 */
import { type Browser, type BrowserContextOptions, chromium, firefox } from 'playwright-core'

const find = (...names: string[]) => names.map((name) => Bun.which(name)).find(Boolean) ?? undefined

export const CHROMIUM = process.env.CHROMIUM ?? find('chromium', 'chromium-browser', 'google-chrome')

export const isFirefox = process.env.BROWSER === 'firefox'
const name = isFirefox ? 'Firefox' : 'Chromium'
const path = isFirefox ? find('firefox-esr', 'firefox') : CHROMIUM
const executablePath = String(path)

/** For `describe.skipIf`. */
export const hasNoBrowser = path === undefined
if (hasNoBrowser)
  console.warn(
    `The tests of the dashboard in a browser are skipped: ${name} is not installed (apt-get install ${isFirefox ? 'firefox-esr' : 'chromium'}).`,
  )

export type Colors = 'light' | 'dark'

/** One browser, except that Firefox has a color scheme for all its pages: one of each there. */
export function createEngine() {
  const opened = new Map<Colors | null, Promise<Browser>>()
  return {
    newContext: async (colors: Colors, options: BrowserContextOptions) => {
      const which = isFirefox ? colors : null
      const browser = opened.getOrInsertComputed(which, () => (isFirefox ? launchFirefox(colors) : launchChromium()))
      const own: BrowserContextOptions = isFirefox
        ? { colorScheme: null }
        : { colorScheme: colors, permissions: ['clipboard-read', 'clipboard-write'] }
      return (await browser).newContext({ ...options, ...own })
    },
    close: async () => {
      for (const browser of opened.values()) await (await browser).close()
    },
  }
}

const launchChromium = () => chromium.launch({ executablePath, args: process.getuid?.() === 0 ? ['--no-sandbox'] : [] })

const launchFirefox = (colors: Colors) =>
  firefox.launch({
    ...{ executablePath, channel: 'moz-firefox' },
    firefoxUserPrefs: {
      'layout.css.prefers-color-scheme.content-override': colors === 'dark' ? 0 : 1,
      // Clipboards are read without asking.
      'dom.events.testing.asyncClipboard': true,
    },
  })
