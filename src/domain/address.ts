/** Tells an address from a name, by its look: `node:net`, which knows exactly, takes a tenth of the whole start to load. Pure. */

const IP_V4 = /^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}$/

/** Whether a host is an IP address, without brackets around it. No name has a colon. */
export const isAddress = (host: string): boolean => host.includes(':') || IP_V4.test(host)
