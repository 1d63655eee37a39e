/** Where Chromium is on this machine; undefined where there is none. */
export const CHROMIUM =
  process.env.CHROMIUM ?? ['chromium', 'chromium-browser', 'google-chrome'].map((name) => Bun.which(name)).find(Boolean)
