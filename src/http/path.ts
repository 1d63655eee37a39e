/** The path of a request. Without a usable Host header its URL is only a path, which `new URL` alone does not take. */
export const pathOf = (request: Request): string => URL.parse(request.url, 'http://localhost')?.pathname ?? '/'
